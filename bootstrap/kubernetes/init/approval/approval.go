// Package approval decides which certificates machines get that Kubernetes leaves to the cluster to approve: that of a kubelet's
// server, for the machine's own name and its own addresses only, and the first one of a machine that joins, for a name that is
// nobody's yet. A machine may claim any address and any name, so what the control plane knows decides.
//
// It is pure.
package approval

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Names of the signers.
const (
	// Serving is that of kubelets' servers.
	Serving = "kubernetes.io/kubelet-serving"
	// Client is that of machines' identities. Machines that have one get the next by Kubernetes itself.
	Client = "kubernetes.io/kube-apiserver-client-kubelet"
)

const (
	userPrefix = "system:node:"
	nodesGroup = "system:nodes"
)

// Request is a CertificateSigningRequest, as far as it decides.
type Request struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Request    []byte   `json:"request"`
		SignerName string   `json:"signerName"`
		Username   string   `json:"username"`
		Groups     []string `json:"groups"`
		Usages     []string `json:"usages"`
	} `json:"spec"`
	Status struct {
		Conditions  []Condition `json:"conditions"`
		Certificate []byte      `json:"certificate"`
	} `json:"status"`
}

// Condition is a decision about a request.
type Condition struct {
	Type string `json:"type"`
}

// Machine is a machine that the cluster knows.
type Machine struct {
	Name string
	// Addresses are those that its kubelet claims.
	Addresses []string
	// Ready reports whether it is there, as far as the control plane knows.
	Ready bool
}

// Cluster is what requests are checked against.
type Cluster struct {
	// Control is the control plane's machine, with its true address.
	Control Machine
	// Joining is the group of machines that join.
	Joining string
	// Reserved are ranges that no machine's address is of: those of pods and services.
	Reserved []netip.Prefix
	// Names are those of the API server's certificate.
	Names    []string
	Machines []Machine
}

// Pending reports whether a request is one that init decides, and undecided.
func (c Cluster) Pending(r Request) bool {
	ours := r.Spec.SignerName == Serving || r.Spec.SignerName == Client && slices.Contains(r.Spec.Groups, c.Joining)
	return ours && len(r.Status.Conditions) == 0 && len(r.Status.Certificate) == 0
}

// Check returns why a pending request can't be approved; nil if it can.
func (c Cluster) Check(r Request) error {
	request, err := parse(r)
	if err != nil {
		return err
	}
	name, ok := strings.CutPrefix(request.Subject.CommonName, userPrefix)
	if !ok || !validName.MatchString(name) || len(name) > 63 || !slices.Equal(request.Subject.Organization, []string{nodesGroup}) {
		return fmt.Errorf("its subject %.120q isn't a machine's", request.Subject.String())
	}
	if len(request.EmailAddresses)+len(request.URIs) > 0 {
		return fmt.Errorf("it must name the machine and its addresses, and nothing else")
	}
	if r.Spec.SignerName == Client {
		return c.checkClient(r, request, name)
	}
	return c.checkServer(r, request, name)
}

// validName is the syntax of machines' names: reservations' IDs.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)

func parse(r Request) (*x509.CertificateRequest, error) {
	block, rest := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		return nil, fmt.Errorf("it must be one request in PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, err
	}
	return request, request.CheckSignature()
}

// checkClient is for a machine that joins. Whoever has the cluster's secret can ask for any name: those of the control plane and
// of machines that are there are taken.
func (c Cluster) checkClient(r Request, request *x509.CertificateRequest, name string) error {
	if err := usages(r, "client auth"); err != nil {
		return err
	}
	if len(request.DNSNames)+len(request.IPAddresses) > 0 {
		return fmt.Errorf("an identity has no names of servers")
	}
	if name == c.Control.Name {
		return fmt.Errorf("%s is the control plane", name)
	}
	if slices.ContainsFunc(c.Machines, func(m Machine) bool { return m.Name == name && m.Ready }) {
		return fmt.Errorf("machine %s is in the cluster already", name)
	}
	return nil
}

func (c Cluster) checkServer(r Request, request *x509.CertificateRequest, name string) error {
	if err := usages(r, "server auth"); err != nil {
		return err
	}
	if r.Spec.Username != request.Subject.CommonName || !slices.Contains(r.Spec.Groups, nodesGroup) {
		return fmt.Errorf("%.80q is another one than machine %s", r.Spec.Username, name)
	}
	at := slices.IndexFunc(c.Machines, func(m Machine) bool { return m.Name == name })
	if at < 0 {
		return fmt.Errorf("the cluster has no machine %s", name)
	}
	if len(request.DNSNames)+len(request.IPAddresses) == 0 {
		return fmt.Errorf("it names nothing")
	}
	if name != c.Control.Name && slices.Contains(c.Names, name) {
		return fmt.Errorf("%s is a name of the API server", name)
	}
	for _, dns := range request.DNSNames {
		if dns != name {
			return fmt.Errorf("the name %.80q isn't the machine's", dns)
		}
	}
	for _, ip := range request.IPAddresses {
		if err := c.checkAddress(c.Machines[at], ip); err != nil {
			return err
		}
	}
	return nil
}

func (c Cluster) checkAddress(m Machine, ip net.IP) error {
	is := func(text string) bool { return ip.Equal(net.ParseIP(text)) }
	if !slices.ContainsFunc(m.Addresses, is) {
		return fmt.Errorf("the address %s isn't the machine's", ip)
	}
	address, ok := netip.AddrFromSlice(ip)
	address = address.Unmap()
	if !ok || !address.IsGlobalUnicast() || slices.ContainsFunc(c.Reserved, func(p netip.Prefix) bool { return p.Contains(address) }) {
		return fmt.Errorf("the address %s can't be a machine's", ip)
	}
	for _, other := range append([]Machine{c.Control}, c.Machines...) {
		if other.Name != m.Name && (other.Ready || other.Name == c.Control.Name) && slices.ContainsFunc(other.Addresses, is) {
			return fmt.Errorf("the address %s is machine %s's", ip, other.Name)
		}
	}
	return nil
}

func usages(r Request, one string) error {
	for _, usage := range r.Spec.Usages {
		if !slices.Contains([]string{"digital signature", "key encipherment", one}, usage) {
			return fmt.Errorf("its usage %.40q isn't allowed", usage)
		}
	}
	return nil
}
