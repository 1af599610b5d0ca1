// Package sign holds the keys of users, farms and nodes: ed25519 pairs, their
// IDs, seed files, and boxes sealed to them.
//
// An ID *is* a key: the base58 text (Bitcoin's alphabet) of the 32 bytes of an
// ed25519 public key. Nothing else vouches for it.
package sign
