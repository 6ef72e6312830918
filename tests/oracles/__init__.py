"""Independent oracles: every method by plain enumeration in exact fractions, straight from the papers.

Nothing here imports the library under test, and nothing here is fast. A method's file offers `distribution`,
`preference` and `list_probability`; all three take all parameters of the method, so that one set can be passed on.
Papers are called by letter: H11 Hofmann et al. CIKM 2011, C12 Chapelle et al. TOIS 2012, O17 Oosterhuis and
de Rijke CIKM 2017.
"""
