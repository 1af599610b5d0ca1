package approval_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/url"
	"testing"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/approval"
)

// request is a kubelet's, but for what change does to it.
func request(t *testing.T, change func(*approval.Request, *x509.CertificateRequest)) approval.Request {
	t.Helper()
	var r approval.Request
	r.Spec.SignerName, r.Spec.Username = approval.Signer, "system:node:7-1"
	r.Spec.Groups = []string{"system:nodes", "system:authenticated"}
	r.Spec.Usages = []string{"digital signature", "server auth"}
	template := &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:node:7-1", Organization: []string{"system:nodes"}},
		DNSNames: []string{"7-1"}, IPAddresses: []net.IP{net.ParseIP("10.1.2.10")},
	}
	change(&r, template)
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

func TestCheck(t *testing.T) {
	addresses := []string{"10.1.2.10", "7-1"}
	good := request(t, func(*approval.Request, *x509.CertificateRequest) {})
	if err := approval.Check(good, addresses); err != nil || !good.Pending() || good.Machine() != "7-1" {
		t.Fatalf("a kubelet's request isn't approved: %v", err)
	}
	for name, change := range map[string]func(*approval.Request, *x509.CertificateRequest){
		"another machine's name": func(_ *approval.Request, c *x509.CertificateRequest) { c.DNSNames = []string{"7-2"} },
		"one more name":          func(_ *approval.Request, c *x509.CertificateRequest) { c.DNSNames = append(c.DNSNames, "kubernetes") },
		"another machine's address": func(_ *approval.Request, c *x509.CertificateRequest) {
			c.IPAddresses = []net.IP{net.ParseIP("10.1.2.11")}
		},
		"a loopback address": func(_ *approval.Request, c *x509.CertificateRequest) {
			c.IPAddresses = append(c.IPAddresses, net.IPv4(127, 0, 0, 1))
		},
		"nothing named":  func(_ *approval.Request, c *x509.CertificateRequest) { c.DNSNames, c.IPAddresses = nil, nil },
		"a mail address": func(_ *approval.Request, c *x509.CertificateRequest) { c.EmailAddresses = []string{"a@b.c"} },
		"a URI": func(_ *approval.Request, c *x509.CertificateRequest) {
			c.URIs = []*url.URL{{Scheme: "spiffe", Host: "a"}}
		},
		"another subject": func(_ *approval.Request, c *x509.CertificateRequest) { c.Subject.CommonName = "system:node:7-2" },
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
		"a request that is none": func(r *approval.Request, _ *x509.CertificateRequest) { r.Spec.Request = []byte("x") },
	} {
		if err := approval.Check(request(t, change), addresses); err == nil {
			t.Errorf("a request with %s is approved", name)
		}
	}
	if approval.Check(good, nil) == nil {
		t.Error("a request of a machine without addresses is approved")
	}
}

func TestPending(t *testing.T) {
	for name, change := range map[string]func(*approval.Request){
		"another signer": func(r *approval.Request) { r.Spec.SignerName = "kubernetes.io/kube-apiserver-client" },
		"a denial":       func(r *approval.Request) { r.Status.Conditions = []approval.Condition{{Type: "Denied"}} },
		"a certificate":  func(r *approval.Request) { r.Status.Certificate = []byte("x") },
	} {
		r := request(t, func(*approval.Request, *x509.CertificateRequest) {})
		if change(&r); r.Pending() {
			t.Errorf("a request with %s is pending", name)
		}
	}
}
