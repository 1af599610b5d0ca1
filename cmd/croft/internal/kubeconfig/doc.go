// Package kubeconfig reads the kubeconfig that a control plane answers with, makes the user's of it, and merges that
// into an existing file. It is pure: text goes in, text comes out. A machine is trusted with its own credentials
// only: a kubeconfig may name programs to run and files to send, so what croft writes is made anew of the certificates.
package kubeconfig
