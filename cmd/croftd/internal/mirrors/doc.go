// Package mirrors keeps the mirrors of the node's store that the operator's settings name, and opens one for a restore. It
// reads the keys of S3 servers when a mirror is brought up, and holds no state of the node.
package mirrors
