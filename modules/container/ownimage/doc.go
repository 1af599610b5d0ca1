// Package ownimage makes the OCI images of the programs that a node runs for itself, such as
// zdb, from the programs' files on the node.
//
// It owns DIR/NAME-DIGEST, an OCI layout folder whose only layer
// holds the program as /NAME. The same program makes the same image, to the
// byte, on each node and after each start; another program makes another folder,
// and the earlier one is removed. A folder is complete or missing.
//
// It reads the program, and writes below DIR only.
package ownimage
