"""What the peers show a model of one session: a program each, `MODULE WHICH BUDGET FILE`, run where it is."""
