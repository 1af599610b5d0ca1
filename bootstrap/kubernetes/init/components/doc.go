// Package components has the configuration of each program of the machine: containerd, the control plane's one process, the
// kubelet, kube-proxy, the pods' network, and the objects that every cluster has.
//
// It is pure: the same machine has always the same documents.
package components
