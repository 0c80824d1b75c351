"""Private matrix products between M parties by ring-LWE: no dealer, semi-honest, up to M-1 colluding.

    security_tables  how long a modulus may be
    ring_parameters  what all parameter sets check of themselves
    parameters       one value that derives every size of a product and checks the noise budget
    packing          where the numbers of matrices stand in polynomials
    cost             what a layout costs
    ntt              negacyclic number-theoretic transform on float64, exact
    residues         between residues, digits and numbers mod 2^w
    sampling         secrets, errors, flooding and public polynomials from AES streams
    encryption       the key holder: encrypts and decrypts
    response         the other side: multiplies, hides and returns
    product          shares of (sum_m S_m)(sum_l R_l), over a `Link`
    two_steps        the same for S_m = X_m^T X_m with few rows
    exact            products of integers mod 2^w on one machine: the own terms, and the plain twin
    matrix_triples   A, B and A B, shared
    slot_packing     where the results of many small products stand in slots
    slot_parameters  their sizes and budgets
    slot_encryption  both sides of a product in slots
    slots            shares of many small products of any shapes, over a `Link`

Encryption and response know no network; `product` runs them with all peers at once. Plaintext times ciphertext is all
there is: no products of ciphertexts, no rotations, no bootstrapping. docs/security.md has the proof sketch.
"""
