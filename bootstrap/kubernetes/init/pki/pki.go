package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/atomicfile"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// Lifetime is how long an issued certificate is valid.
	Lifetime = 365 * 24 * time.Hour
	// renewBefore is how much of it is left when it is issued anew.
	renewBefore = Lifetime / 3
	// backdated is how far before its issue a certificate begins, for machines whose clocks are behind.
	backdated = time.Hour
)

// Store is the folder of a control plane's certificates.
type Store struct {
	dir string
	now func() time.Time
}

// Open prepares the folder, which must exist.
func Open(dir string, now func() time.Time) *Store { return &Store{dir: dir, now: now} }

// Path is the file with the certificate and the key of that name.
func (s *Store) Path(name string) string { return filepath.Join(s.dir, name+".pem") }

// Authority is a certificate authority of the store.
type Authority struct {
	store *Store
	pair  pair
	// CertificatePath is the file that has the certificate alone, for those who check others by it.
	CertificatePath string
}

// Certificate is the authority's certificate in PEM.
func (a *Authority) Certificate() []byte { return a.pair.certificatePEM() }

// pair is a certificate and its key.
type pair struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// Authority returns the authority of that name; the first time it makes it. An authority whose file is damaged is an error:
// the cluster's machines trust no other one.
func (s *Store) Authority(name string) (*Authority, error) {
	p, err := s.read(name)
	if os.IsNotExist(err) {
		p, err = s.newAuthority(name)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open certificate authority %s: %w", name, err)
	}
	a := &Authority{store: s, pair: p, CertificatePath: filepath.Join(s.dir, name+".crt")}
	if have, err := os.ReadFile(a.CertificatePath); err == nil && bytes.Equal(have, a.Certificate()) {
		return a, nil
	}
	return a, atomicfile.WriteFile(a.CertificatePath, a.Certificate(), 0o644)
}

func (s *Store) newAuthority(name string) (pair, error) {
	template, err := s.template(pkix.Name{CommonName: "croft-" + name}, authorityLifetime)
	if err != nil {
		return pair{}, err
	}
	// Machines whose clocks are behind trust it too.
	template.NotBefore = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign
	return s.issue(name, template, nil)
}

// Names are whom a certificate is for.
type Names struct {
	// CommonName and Organizations are the user and the groups of a client.
	CommonName    string
	Organizations []string
	// DNS and Addresses are of a server, which has at least one; a certificate without them is a client's.
	DNS       []string
	Addresses []netip.Addr
}

// Ensure makes the certificate of that name, unless the one that is there will do. It reports whether it made one.
func (a *Authority) Ensure(name string, n Names) (bool, error) {
	have, err := a.store.read(name)
	if err == nil && a.serves(have.certificate, n) {
		return false, nil
	}
	template, err := a.store.template(pkix.Name{CommonName: n.CommonName, Organization: n.Organizations}, Lifetime)
	if err != nil {
		return false, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{n.usage()}
	template.DNSNames, template.IPAddresses = n.DNS, addresses(n.Addresses)
	template.BasicConstraintsValid = true
	if _, err := a.store.issue(name, template, &a.pair); err != nil {
		return false, fmt.Errorf("cannot issue certificate %s: %w", name, err)
	}
	return true, nil
}

// Valid reports whether the certificate of that name is there, and valid now, whoever it is for.
func (a *Authority) Valid(name string) bool {
	have, err := a.store.read(name)
	now := a.store.now()
	return err == nil && have.certificate.CheckSignatureFrom(a.pair.certificate) == nil &&
		!now.Before(have.certificate.NotBefore) && now.Before(have.certificate.NotAfter)
}

func (n Names) usage() x509.ExtKeyUsage {
	if len(n.DNS)+len(n.Addresses) > 0 {
		return x509.ExtKeyUsageServerAuth
	}
	return x509.ExtKeyUsageClientAuth
}

// serves reports whether a certificate is this authority's, for these names, and valid for long enough.
func (a *Authority) serves(c *x509.Certificate, n Names) bool {
	now := a.store.now()
	return c.CheckSignatureFrom(a.pair.certificate) == nil &&
		!now.Before(c.NotBefore) && now.Add(renewBefore).Before(c.NotAfter) &&
		c.Subject.CommonName == n.CommonName && same(c.Subject.Organization, n.Organizations) &&
		same(c.DNSNames, n.DNS) && same(printed(c.IPAddresses), printed(addresses(n.Addresses))) &&
		slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{n.usage()})
}

// same compares two lists as sets.
func same(a, b []string) bool {
	x, y := slices.Clone(a), slices.Clone(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

func printed(list []net.IP) []string {
	out := make([]string, len(list))
	for i, ip := range list {
		out[i] = ip.String()
	}
	return out
}

func addresses(list []netip.Addr) []net.IP {
	out := make([]net.IP, len(list))
	for i, a := range list {
		out[i] = a.AsSlice()
	}
	return out
}

// EnsureKey makes the private key of that name, if there is none.
func (s *Store) EnsureKey(name string) error {
	content, err := os.ReadFile(s.Path(name))
	if os.IsNotExist(err) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		text, err := keyPEM(key)
		if err != nil {
			return err
		}
		return atomicfile.WriteFile(s.Path(name), text, 0o600)
	}
	if err != nil {
		return err
	}
	if _, err := parseKey(content); err != nil {
		return fmt.Errorf("cannot use key %s: %w", name, err)
	}
	return nil
}

func (s *Store) template(subject pkix.Name, lifetime time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := s.now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-backdated), NotAfter: now.Add(lifetime)}, nil
}

// issue makes a key and has its certificate signed, by itself without an authority.
func (s *Store) issue(name string, template *x509.Certificate, by *pair) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if by == nil {
		by = &pair{certificate: template, key: key}
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key.Public(), by.key)
	if err != nil {
		return pair{}, err
	}
	certificate, err := x509.ParseCertificate(raw)
	if err != nil {
		return pair{}, err
	}
	out := pair{certificate: certificate, key: key}
	text, err := keyPEM(key)
	if err != nil {
		return pair{}, err
	}
	return out, atomicfile.WriteFile(s.Path(name), append(out.certificatePEM(), text...), 0o600)
}

func (p pair) certificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.certificate.Raw})
}

const keyType = "EC PRIVATE KEY"

func keyPEM(key *ecdsa.PrivateKey) ([]byte, error) {
	raw, err := x509.MarshalECPrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: keyType, Bytes: raw}), err
}

// Read returns the certificate and the key of that name, in PEM.
func (s *Store) Read(name string) (certificate, key []byte, err error) {
	p, err := s.read(name)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read certificate %s: %w", name, err)
	}
	key, err = keyPEM(p.key)
	return p.certificatePEM(), key, err
}

func (s *Store) read(name string) (pair, error) {
	content, err := os.ReadFile(s.Path(name))
	if err != nil {
		return pair{}, err
	}
	block, rest := pem.Decode(content)
	if block == nil || block.Type != "CERTIFICATE" {
		return pair{}, fmt.Errorf("%s must begin with a certificate in PEM", s.Path(name))
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return pair{}, err
	}
	key, err := parseKey(rest)
	if err != nil {
		return pair{}, err
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return pair{}, fmt.Errorf("the key in %s isn't its certificate's", s.Path(name))
	}
	return pair{certificate: certificate, key: key}, nil
}

func parseKey(content []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(content)
	if block == nil || block.Type != keyType {
		return nil, fmt.Errorf("there must be a block %q in PEM", strings.ToLower(keyType))
	}
	return x509.ParseECPrivateKey(block.Bytes)
}
