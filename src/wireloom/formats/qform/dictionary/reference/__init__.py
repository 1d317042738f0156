"""The reference dialect: dictionary texts read as the reference implementation reads them.

The golden vectors were recorded from that implementation, and files exist that load only there.
So its reading is here in full, besides the clean one. It works on bytes, as the original does.
What it does differently is listed in SPEC §6; in short:

* a name ends only at white space or ``;``, and a keyword is recognised by its first letters;
* braces hardly count: each token changes a little state, and most texts mean *something*;
* an error ends the file it is in, and the including file goes on;
* a comment that ends the text without a line end leaves its last byte as a token;
* an RDM line counts once the next line starts, so a last line without a line end is lost.
"""

__all__: list[str] = []
