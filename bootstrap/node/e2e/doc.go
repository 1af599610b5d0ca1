// Package e2e boots the node's image in QEMU and uses the node as people do, through an explorer: make test-boot runs it. It has a
// build tag of its own, boot, because its image takes minutes to build and its machines take a while to boot where they are emulated.
package e2e
