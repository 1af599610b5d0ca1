package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// authority is a certificate authority of a test, with its files in a folder.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T, dir string) *authority {
	t.Helper()
	a := &authority{dir: dir}
	a.key = a.newKey(t, "ca")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	a.cert = a.sign(t, "ca", template, template, a.key)
	return a
}

// path is the path of a file of the authority.
func (a *authority) path(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) newKey(t *testing.T, name string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
	return key
}

func (a *authority) sign(t *testing.T, name string, template, parent *x509.Certificate, of *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, of.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	a.write(t, name+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func (a *authority) write(t *testing.T, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(a.path(name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue writes NAME.crt and NAME.key: of a server if there are addresses, of a user otherwise.
func (a *authority) issue(t *testing.T, name string, subject pkix.Name, addresses ...net.IP) {
	t.Helper()
	usage := x509.ExtKeyUsageClientAuth
	if len(addresses) > 0 {
		usage = x509.ExtKeyUsageServerAuth
	}
	a.sign(t, name, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, IPAddresses: addresses,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}, a.cert, a.newKey(t, name))
}

// kubeconfig issues a user's certificate and writes NAME.conf, with which the user speaks to the API server.
func (a *authority) kubeconfig(t *testing.T, name string, subject pkix.Name) string {
	t.Helper()
	a.issue(t, name, subject)
	a.write(t, name+".conf", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:6443", certificate-authority: %q}}]
users: [{name: me, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: me, context: {cluster: test, user: me}}]
current-context: me
`, a.path("ca.crt"), a.path(name+".crt"), a.path(name+".key")))
	return a.path(name + ".conf")
}
