package approval_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/netip"
	"net/url"
	"testing"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/approval"
)

const joining = "system:bootstrappers:croft"

// cluster has a control plane 3-1, a machine 7-1 that asks, a machine 8-1 that is there, and 9-1, which has gone.
func cluster() approval.Cluster {
	control := approval.Machine{Name: "3-1", Addresses: []string{"10.1.2.3"}, Ready: true}
	return approval.Cluster{
		Control: control, Joining: joining, Names: []string{"localhost", "kubernetes"},
		Reserved: []netip.Prefix{netip.MustParsePrefix("100.96.0.0/16"), netip.MustParsePrefix("100.112.0.0/16")},
		Machines: []approval.Machine{
			control, {Name: "7-1", Addresses: []string{"10.1.2.10", "7-1", "127.0.0.1", "100.112.0.1", "10.1.2.3", "10.1.2.8", "10.1.2.9"}},
			{Name: "8-1", Addresses: []string{"10.1.2.8"}, Ready: true}, {Name: "9-1", Addresses: []string{"10.1.2.9"}},
			{Name: "kubernetes", Addresses: []string{"10.1.2.10"}},
		},
	}
}

// signed makes the request that template is.
func signed(t *testing.T, r approval.Request, template *x509.CertificateRequest) approval.Request {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	if r.Spec.Request == nil {
		r.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: raw})
	}
	return r
}

type change func(*approval.Request, *x509.CertificateRequest)

// serving is the request of machine 7-1's server, but for the change.
func serving(t *testing.T, change change) approval.Request {
	t.Helper()
	var r approval.Request
	r.Spec.SignerName, r.Spec.Username = approval.Serving, "system:node:7-1"
	r.Spec.Groups = []string{"system:nodes", "system:authenticated"}
	r.Spec.Usages = []string{"digital signature", "server auth"}
	template := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:7-1", Organization: []string{"system:nodes"}},
		DNSNames: []string{"7-1"}, IPAddresses: []net.IP{net.ParseIP("10.1.2.10")},
	}
	change(&r, template)
	return signed(t, r, template)
}

// client is the request of machine 10-1, which joins, but for the change.
func client(t *testing.T, change change) approval.Request {
	t.Helper()
	var r approval.Request
	r.Spec.SignerName, r.Spec.Username = approval.Client, "system:bootstrap:abcdef"
	r.Spec.Groups = []string{joining, "system:authenticated"}
	r.Spec.Usages = []string{"digital signature", "client auth"}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:10-1", Organization: []string{"system:nodes"}}}
	change(&r, template)
	return signed(t, r, template)
}

func nothing(*approval.Request, *x509.CertificateRequest) {}

func as(name string) change {
	return func(r *approval.Request, c *x509.CertificateRequest) {
		if r.Spec.SignerName == approval.Serving {
			r.Spec.Username, c.DNSNames = "system:node:"+name, []string{name}
		}
		c.Subject.CommonName = "system:node:" + name
	}
}

func at(address string) change {
	return func(_ *approval.Request, c *x509.CertificateRequest) { c.IPAddresses = []net.IP{net.ParseIP(address)} }
}

func TestServing(t *testing.T) {
	if err := cluster().Check(serving(t, nothing)); err != nil || !cluster().Pending(serving(t, nothing)) {
		t.Fatalf("a kubelet's request isn't approved: %v", err)
	}
	// A machine that has gone has no address any more.
	if err := cluster().Check(serving(t, at("10.1.2.9"))); err != nil {
		t.Errorf("the address of a machine that has gone isn't another's: %v", err)
	}
	for name, change := range map[string]change{
		"another machine's name":    func(_ *approval.Request, c *x509.CertificateRequest) { c.DNSNames = []string{"8-1"} },
		"one more name":             func(_ *approval.Request, c *x509.CertificateRequest) { c.DNSNames = append(c.DNSNames, "kubernetes") },
		"an unclaimed address":      at("10.1.2.11"),
		"a loopback address":        at("127.0.0.1"),
		"a service's address":       at("100.112.0.1"),
		"the control plane's":       at("10.1.2.3"),
		"another machine's address": at("10.1.2.8"),
		"nothing named":             func(_ *approval.Request, c *x509.CertificateRequest) { c.DNSNames, c.IPAddresses = nil, nil },
		"a mail address":            func(_ *approval.Request, c *x509.CertificateRequest) { c.EmailAddresses = []string{"a@b.c"} },
		"a URI": func(_ *approval.Request, c *x509.CertificateRequest) {
			c.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}}
		},
		"another subject": func(_ *approval.Request, c *x509.CertificateRequest) { c.Subject.CommonName = "system:node:8-1" },
		"a group of masters": func(_ *approval.Request, c *x509.CertificateRequest) {
			c.Subject.Organization = []string{"system:masters"}
		},
		"a client's usage": func(r *approval.Request, _ *x509.CertificateRequest) {
			r.Spec.Usages = append(r.Spec.Usages, "client auth")
		},
		"a user": func(r *approval.Request, _ *x509.CertificateRequest) { r.Spec.Username = "me" },
		"no group of machines": func(r *approval.Request, _ *x509.CertificateRequest) {
			r.Spec.Groups = []string{"system:authenticated"}
		},
		"a request that is none":   func(r *approval.Request, _ *x509.CertificateRequest) { r.Spec.Request = []byte("x") },
		"a name that is a path":    as("7-1?x="),
		"an unknown machine":       as("11-1"),
		"a name of the API server": as("kubernetes"),
	} {
		if err := cluster().Check(serving(t, change)); err == nil {
			t.Errorf("a request with %s is approved", name)
		}
	}
}

func TestClient(t *testing.T) {
	for name, change := range map[string]change{"a new one": nothing, "one that has gone": as("9-1")} {
		if err := cluster().Check(client(t, change)); err != nil || !cluster().Pending(client(t, change)) {
			t.Errorf("the machine that joins, %s, isn't approved: %v", name, err)
		}
	}
	for name, change := range map[string]change{
		"the control plane's name": as("3-1"),
		"a present machine's name": as("8-1"),
		"a name that is a path":    as("../x"),
		"no name":                  as(""),
		"a user's name":            func(_ *approval.Request, c *x509.CertificateRequest) { c.Subject.CommonName = "kubernetes-admin" },
		"a group of masters": func(_ *approval.Request, c *x509.CertificateRequest) {
			c.Subject.Organization = []string{"system:masters"}
		},
		"two groups": func(_ *approval.Request, c *x509.CertificateRequest) {
			c.Subject.Organization = []string{"system:nodes", "system:masters"}
		},
		"a server's usage": func(r *approval.Request, _ *x509.CertificateRequest) {
			r.Spec.Usages = append(r.Spec.Usages, "server auth")
		},
		"a server's name":    func(_ *approval.Request, c *x509.CertificateRequest) { c.DNSNames = []string{"10-1"} },
		"a server's address": at("10.1.2.12"),
	} {
		if err := cluster().Check(client(t, change)); err == nil {
			t.Errorf("a machine that joins with %s is approved", name)
		}
	}
}

func TestPending(t *testing.T) {
	for name, change := range map[string]func(*approval.Request){
		"another signer":   func(r *approval.Request) { r.Spec.SignerName = "kubernetes.io/kube-apiserver-client" },
		"a denial":         func(r *approval.Request) { r.Status.Conditions = []approval.Condition{{Type: "Denied"}} },
		"a certificate":    func(r *approval.Request) { r.Status.Certificate = []byte("x") },
		"nobody's joining": func(r *approval.Request) { r.Spec.Groups = []string{"system:nodes"} },
	} {
		r := client(t, nothing)
		if change(&r); cluster().Pending(r) {
			t.Errorf("a request with %s is pending", name)
		}
	}
}
