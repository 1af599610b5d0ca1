// Package socket makes and reaches unix sockets whose paths may be longer than
// the 107 bytes that the kernel takes, and which nobody else may reach while
// they are made. A zdb's sockets lie on its volume, in a folder that the zdb
// itself may write to: so links are never followed.
package socket
