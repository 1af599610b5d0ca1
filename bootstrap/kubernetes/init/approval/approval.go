// Package approval decides which kubelets get the certificate that their server asks for. Kubernetes leaves that to the
// cluster: a machine may have one for its own name and its own addresses only.
//
// It is pure.
package approval

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Signer is the name of the signer of kubelets' server certificates.
const Signer = "kubernetes.io/kubelet-serving"

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

// Pending reports whether a request is one for a kubelet's server, and undecided.
func (r Request) Pending() bool {
	return r.Spec.SignerName == Signer && len(r.Status.Conditions) == 0 && len(r.Status.Certificate) == 0
}

// Machine is the name of the machine that asks; empty if it is no machine that does.
func (r Request) Machine() string {
	name, ok := strings.CutPrefix(r.Spec.Username, userPrefix)
	if !ok || !slices.Contains(r.Spec.Groups, nodesGroup) {
		return ""
	}
	return name
}

// Check returns why a pending request can't be approved, for a machine with these addresses; nil if it can.
func Check(r Request, addresses []string) error {
	name := r.Machine()
	if name == "" {
		return fmt.Errorf("%.80q is no machine", r.Spec.Username)
	}
	for _, usage := range r.Spec.Usages {
		if !slices.Contains([]string{"digital signature", "key encipherment", "server auth"}, usage) {
			return fmt.Errorf("its usage %.40q isn't a server's", usage)
		}
	}
	block, rest := pem.Decode(r.Spec.Request)
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(rest) > 0 {
		return fmt.Errorf("it must be one request in PEM")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return err
	}
	if err := request.CheckSignature(); err != nil {
		return err
	}
	if request.Subject.CommonName != r.Spec.Username || !slices.Equal(request.Subject.Organization, []string{nodesGroup}) {
		return fmt.Errorf("its subject %.120q isn't the machine", request.Subject.String())
	}
	if len(request.EmailAddresses)+len(request.URIs) > 0 || len(request.DNSNames)+len(request.IPAddresses) == 0 {
		return fmt.Errorf("it must name the machine's name or addresses, and nothing else")
	}
	for _, dns := range request.DNSNames {
		if dns != name {
			return fmt.Errorf("the name %.80q isn't the machine's", dns)
		}
	}
	for _, ip := range request.IPAddresses {
		if !slices.ContainsFunc(addresses, func(a string) bool { return ip.Equal(net.ParseIP(a)) }) {
			return fmt.Errorf("the address %s isn't the machine's", ip)
		}
	}
	return nil
}
