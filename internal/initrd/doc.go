// Package initrd packs initrds: a program as /init, and kernel modules in the order in which it loads them. Guests of
// tests and the image of Kubernetes nodes are made with it. It owns nothing on the disk.
package initrd
