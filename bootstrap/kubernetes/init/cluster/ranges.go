package cluster

import "fmt"

// Address ranges of every cluster. They are of 100.64.0.0/10, which no user's network may use, so that a pod reaches all of
// its machine's network. 100.64.0.0/16 is left out: croft's tunnels have it.
const (
	// Pods has a /24 for each machine: at most 256 machines.
	Pods = "100.96.0.0/16"
	// Services has the virtual addresses of services.
	Services = "100.112.0.0/16"
	// APIService is the service that leads to the API server, and DNSService the cluster's name server.
	APIService = "100.112.0.1"
	DNSService = "100.112.0.10"
	// Domain is the cluster's domain.
	Domain = "cluster.local"
	// APIPort is the API server's TCP port.
	APIPort = 6443
)

// Server is the URL of the API server with that IPv4 address.
func Server(address string) string { return fmt.Sprintf("https://%s:%d", address, APIPort) }
