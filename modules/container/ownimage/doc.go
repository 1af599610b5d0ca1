// Package ownimage makes the OCI images of what a node runs for itself, such as
// zdb, out of programs that lie on the node.
//
// Of an image it owns DIR/NAME-DIGEST, an OCI layout folder whose only layer
// holds the program as /NAME. The same program makes the same image, to the
// byte, on each node and after each start; another program makes another folder,
// and the one before goes. A folder is there whole or not at all.
//
// It reads the program, and writes below DIR only.
package ownimage
