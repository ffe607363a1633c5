// Pages whose title has words of the search come first; the reference, the evidence, the changelog
// and the files for contributors come last. docs/site/check.py ranks in the same way.
var Scorer = {
  score: ([name, title, anchor, descr, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const page = title.split(" > ")[0].toLowerCase();
    const words = query.toLowerCase().match(/[\p{L}\p{N}_]{3,}/gu) || [];
    const named = score + 5 * words.filter((word) => page.includes(word)).length;
    const isLater = /^docs\/(reference|evidence)\/|CHANGELOG|README|CONTRIBUTING|SECURITY/.test(name);
    return isLater ? named / 4 : named;
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: {0: 15, 1: 5, 2: -5}, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
