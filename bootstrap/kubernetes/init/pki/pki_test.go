package pki_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/bootstrap/kubernetes/init/pki"
)

func server() pki.Names {
	return pki.Names{CommonName: "server", DNS: []string{"a.example", "b.example"}, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
}

func client() pki.Names {
	return pki.Names{CommonName: "admin", Organizations: []string{"system:masters"}}
}

func authority(t testing.TB, s *pki.Store, name string) *pki.Authority {
	t.Helper()
	a, err := s.Authority(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ensure(t testing.TB, a *pki.Authority, name string, n pki.Names) bool {
	t.Helper()
	made, err := a.Ensure(name, n)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func content(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHandshake has the certificates authenticate both ends of a TLS connection, as they are on the disk.
func TestHandshake(t *testing.T) {
	s := pki.Open(t.TempDir(), time.Now)
	ca, other := authority(t, s, "ca"), authority(t, s, "other")
	ensure(t, ca, "server", server())
	ensure(t, ca, "client", client())
	ensure(t, other, "stranger", client())
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(content(t, ca.CertificatePath)) {
		t.Fatal("the authority's file has no certificate")
	}
	load := func(name string) tls.Certificate {
		// One file has both, as the API server is given it.
		c, err := tls.LoadX509KeyPair(s.Path(name), s.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	try := func(asServer, asClient, name string) error {
		listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{load(asServer)}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		done := make(chan error, 1)
		go func() {
			conn, err := listener.Accept()
			if err == nil {
				defer conn.Close()
				err = conn.(*tls.Conn).Handshake()
			}
			done <- err
		}()
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{Certificates: []tls.Certificate{load(asClient)}, RootCAs: roots, ServerName: name})
		if err == nil {
			defer conn.Close()
		}
		if other := <-done; err == nil {
			err = other
		}
		return err
	}
	for _, name := range []string{"a.example", "b.example", "127.0.0.1"} {
		if err := try("server", "client", name); err != nil {
			t.Errorf("no handshake with %s: %v", name, err)
		}
	}
	for _, bad := range [][3]string{{"server", "client", "c.example"}, {"server", "stranger", "a.example"}, {"client", "client", "a.example"}, {"server", "server", "a.example"}} {
		if try(bad[0], bad[1], bad[2]) == nil {
			t.Errorf("certificate %s serves as %s to %s", bad[0], bad[2], bad[1])
		}
	}
}

// TestRenewal draws times and names, and compares what is issued anew with a model.
func TestRenewal(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dir := t.TempDir()
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		s := pki.Open(dir, func() time.Time { return now })
		ca := authority(t, s, "ca")
		root := ca.Certificate()
		var issued time.Time
		var names pki.Names
		for range rapid.IntRange(1, 6).Draw(r, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 300).Draw(r, "days")) * 24 * time.Hour)
			want := rapid.SampledFrom([]pki.Names{server(), client()}).Draw(r, "names")
			if rapid.Bool().Draw(r, "restart") {
				ca = authority(t, s, "ca")
			}
			due := issued.IsZero() || want.CommonName != names.CommonName || !now.Add(pki.Lifetime/3).Before(issued.Add(pki.Lifetime))
			before, _, _ := s.Read("c")
			made := ensure(t, ca, "c", want)
			after, _, err := s.Read("c")
			if err != nil {
				r.Fatal(err)
			}
			if made != due || made == bytes.Equal(before, after) {
				r.Fatalf("at %s a certificate of %s is made anew: %t, want %t", now, issued, made, due)
			}
			if made {
				issued, names = now, want
			}
			if !bytes.Equal(ca.Certificate(), root) {
				r.Fatal("the authority is another one")
			}
		}
	})
}

func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := pki.Open(dir, time.Now)
	ca := authority(t, s, "ca")
	ensure(t, ca, "c", client())
	// A certificate is replaced, whatever has become of its file.
	for _, damaged := range [][]byte{nil, content(t, s.Path("c"))[:200], content(t, s.Path("ca")), slices.Concat(content(t, ca.CertificatePath), []byte("x"))} {
		if err := os.WriteFile(s.Path("c"), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if !ensure(t, ca, "c", client()) {
			t.Errorf("a file of %d bytes serves as a certificate", len(damaged))
		}
	}
	// An authority is not: nobody would trust the next one.
	good := content(t, s.Path("ca"))
	if err := os.WriteFile(s.Path("ca"), good[:200], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Authority("ca"); err == nil {
		t.Error("a damaged authority is opened")
	}
	if got := content(t, s.Path("ca")); !bytes.Equal(got, good[:200]) {
		t.Error("a damaged authority's file is changed")
	}
	if entries, _ := filepath.Glob(dir + "/*"); len(entries) != 3 {
		t.Errorf("the folder has %v, want the authority, its certificate alone, and one certificate", entries)
	}
}

func TestKey(t *testing.T) {
	s := pki.Open(t.TempDir(), time.Now)
	for range 2 {
		if err := s.EnsureKey("k"); err != nil {
			t.Fatal(err)
		}
	}
	first := content(t, s.Path("k"))
	if err := s.EnsureKey("k"); err != nil || !bytes.Equal(first, content(t, s.Path("k"))) {
		t.Errorf("the key is made anew: %v", err)
	}
	info, err := os.Stat(s.Path("k"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the key: %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(s.Path("k"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.EnsureKey("k") == nil {
		t.Error("a damaged key is taken")
	}
}

// TestValid: a certificate is valid from its birth to its end, and of its own authority only.
func TestValid(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	s := pki.Open(t.TempDir(), func() time.Time { return now })
	ca, other := authority(t, s, "ca"), authority(t, s, "other")
	ensure(t, ca, "server", server())
	born := now
	for after, want := range map[time.Duration]bool{0: true, pki.Lifetime - time.Minute: true, pki.Lifetime + time.Minute: false, -365 * 24 * time.Hour: false} {
		now = born.Add(after)
		if ca.Valid("server") != want {
			t.Errorf("%s after its birth: valid is %t", after, !want)
		}
	}
	now = born
	if other.Valid("server") || ca.Valid("missing") {
		t.Error("another's certificate, or none, is valid")
	}
}
