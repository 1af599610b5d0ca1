// Package e2e tests the real Kubernetes image through an explorer and two nodes: make test-kubernetes runs it. It has a build
// tag of its own, kubernetes, because its image takes minutes to build and its machines take minutes to boot where they are
// emulated.
package e2e
