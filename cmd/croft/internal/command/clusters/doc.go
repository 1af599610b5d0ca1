// Package clusters has the commands that speak to the machines of a Kubernetes cluster themselves, from the user's
// computer: fetch the kubeconfig of a control plane.
package clusters
