// Package container is the module of users' containers. On the bus it is
// container.container and container.image.
package container
