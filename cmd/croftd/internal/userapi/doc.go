// Package userapi serves users directly: HTTPS with the node's own key, reached at an address of the
// node or through a tunnel that the node keeps open to the explorer. It authenticates the user and
// checks that they own the workload; other packages read, run and delete.
package userapi
