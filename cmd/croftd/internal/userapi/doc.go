// Package userapi is where users speak to the node without anybody between them:
// HTTPS with the node's own key, reached at an address of the node or through
// a tunnel that the node keeps open to the explorer. It says who asks and
// whether the workload is theirs; what is read, run and ended is others'.
package userapi
