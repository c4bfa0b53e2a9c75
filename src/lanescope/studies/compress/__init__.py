"""``bench compress``: what codecs make of arrays, and whether that pays."""
