// Package persist says how memory is kept on places that outlive a node's disk: objects by kind and name, on instances of
// providers. It holds the contract, the names, and the frame by which an object says what it is. It touches nothing: the
// packages fs and s3 below it are providers, conformance is the suite that every provider must pass, seal encrypts what
// leaves the node, and mirror keeps a copy of the node's store. Secrets, such as the keys of an S3 server, are
// package secret's, never an object.
//
// An instance is one place of a provider, such as one folder or one bucket. It belongs to one machine.
package persist
