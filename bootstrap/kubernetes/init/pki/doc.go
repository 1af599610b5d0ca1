// Package pki keeps a control plane's certificates and keys: two certificate authorities, the certificates that they
// have issued, and the key that signs service accounts' tokens.
//
// It owns the files of its folder. Each holds a key and its certificate, and is replaced whole, so that a power cut leaves
// no pair that doesn't match. Certificates are issued anew when a third of their time is left, when their names have
// changed, or when another authority has issued them. Authorities live for ten years and are never replaced: all machines
// of the cluster trust them.
package pki
