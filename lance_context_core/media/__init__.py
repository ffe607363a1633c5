"""Pictures, sound and films: what they are, what they show, and how they are found.

What is here is for who brings something that looks at pictures; the pictures themselves are in
`ContextStore.images`.
"""

from lance_context_core.media.captioning import ImageAnalysis, ImageAnalyzer

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Looking at pictures
    "ImageAnalyzer",
    "ImageAnalysis",
]
