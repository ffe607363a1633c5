"""Images, sound and films: their types, analysis and records.

This package is for code that adds an image analyzer; the images themselves are in
`ContextStore.images`.
"""

from lance_context_core.media.captioning import ImageAnalysis, ImageAnalyzer

__all__ = [  # noqa: RUF022 - in the order in which the reference shows them
    # Analysis of images
    "ImageAnalyzer",
    "ImageAnalysis",
]
