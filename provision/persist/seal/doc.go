// Package seal encrypts what leaves the node, so that whoever keeps it can read nothing, change nothing, and put nothing in
// another's place.
//
// A mirror has a data key of its own, made at random. It is kept beside what it seals, in a document that has it in boxes for
// the node's key and, if the operator names one, for a recovery key; the node signs the document, so that nobody else can name
// a data key or add a box. A sealed object is compressed, then sealed by XChaCha20-Poly1305 with a random nonce; what it is bound to
// are the machine, the data key, its kind, its name, and its version. Names are hidden too: outside, an object's name is a keyed
// hash.
//
// An older object of the same name and kind is as good as a newer one here: package mirror, which keeps a list of what there must be, tells
// them apart. The package touches nothing.
package seal
