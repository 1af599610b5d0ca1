package explorer

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/explorer/api"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/limit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// running starts a service and stops it at the test's end.
func running(t *testing.T, change ...func(*Config)) *Service {
	t.Helper()
	c := Config{Listen: "127.0.0.1:0", DB: filepath.Join(t.TempDir(), "e.db"), Policy: api.DefaultPolicy(), Version: "test", Log: zerolog.Nop()}
	for _, f := range change {
		f(&c)
	}
	s, err := Open(t.Context(), c)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// pair writes a certificate of that name for 127.0.0.1 and returns its pool.
func pair(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}), 0o600))
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return pool
}

func TestTLSAndReload(t *testing.T) {
	dir := t.TempDir()
	first := pair(t, dir, "first")
	s := running(t, func(c *Config) { c.TLSCert, c.TLSKey = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem") })
	ask := func(pool *x509.CertPool) error {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		defer transport.CloseIdleConnections()
		c, err := wire.NewClient(wire.Config{URL: s.URL(), Transport: transport})
		must(t, err)
		_, err = c.Info(t.Context())
		return err
	}
	must(t, ask(first))
	second := pair(t, dir, "second")
	must(t, ask(first))
	must(t, s.Reload())
	must(t, ask(second))
	if ask(first) == nil {
		t.Error("after reloading it still has the first certificate")
	}
	must(t, os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("nonsense"), 0o600))
	if s.Reload() == nil {
		t.Error("nonsense is read as a certificate")
	}
	must(t, ask(second))
}

// A client that doesn't finish its headers in time is cut off, and the explorer still
// answers others.
func TestSlowHeaders(t *testing.T) {
	s := running(t, func(c *Config) { c.HeaderTimeout = 200 * time.Millisecond })
	conn, err := net.Dial("tcp", s.Addr())
	must(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte("GET /info HTTP/1.1\r\nHost: x\r\nX-Slow: "))
	must(t, err)
	must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
	start := time.Now()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line[:12] != "HTTP/1.1 408" {
		t.Errorf("it answers %q", line)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("it was cut off after %s", took)
	}
	c, err := wire.NewClient(wire.Config{URL: s.URL()})
	must(t, err)
	defer c.Close()
	_, err = c.Info(t.Context())
	must(t, err)
}

// Oversized headers and bytes that aren't HTTP do no harm.
func TestGarbageOnTheWire(t *testing.T) {
	s := running(t)
	for name, sent := range map[string]string{
		"not HTTP":     "\x00\x01\x02 what?\r\n\r\n",
		"long headers": "GET / HTTP/1.1\r\nHost: x\r\nX: " + fmt.Sprint(make([]int, 40000)) + "\r\n\r\n",
		"bad length":   "POST /nodes HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
		"two lengths":  "POST /nodes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
	} {
		conn, err := net.Dial("tcp", s.Addr())
		must(t, err)
		_, _ = conn.Write([]byte(sent)) // the explorer may close before all is sent
		must(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil && line[:10] != "HTTP/1.1 4" {
			t.Errorf("%s: it answers %q", name, line)
		}
		_ = conn.Close()
	}
	c, err := wire.NewClient(wire.Config{URL: s.URL()})
	must(t, err)
	defer c.Close()
	_, err = c.Info(t.Context())
	must(t, err)
}

func TestConfigIsChecked(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"listen":       func(c *Config) { c.Listen = "nowhere" },
		"half of TLS":  func(c *Config) { c.TLSKey = "x" },
		"policy":       func(c *Config) { c.Policy.MaxWait = 0 },
		"no such port": func(c *Config) { c.Listen = "127.0.0.1:99999" },
		"port file":    func(c *Config) { c.PortFile = "/proc/no/such/file" },
		"database":     func(c *Config) { c.DB = "/proc/no/such.db" },
	} {
		c := Config{Listen: "127.0.0.1:0", DB: filepath.Join(t.TempDir(), "e.db"), Policy: api.DefaultPolicy(), Log: zerolog.Nop()}
		change(&c)
		if s, err := Open(t.Context(), c); err == nil {
			t.Errorf("%s: it opens", name)
			_ = s.close()
		}
	}
}

// Polls take at most three quarters of the connections, tunnels half. Without rates
// per address there is no limit per source.
func TestLimitsFitTheFiles(t *testing.T) {
	l := limit.Limit{Total: 1000, Each: 250}
	p := fit(api.DefaultPolicy(), l)
	if p.MaxPolls != 750 || p.MaxTunnels != 500 {
		t.Errorf("polls %d, tunnels %d", p.MaxPolls, p.MaxTunnels)
	}
	p = api.DefaultPolicy()
	p.AddressRate = 0
	got, err := connectionLimit(p)
	must(t, err)
	if got.Each != 0 || got.Total <= 0 || got.Total > connections.Total {
		t.Errorf("without limits of addresses it is %+v", got)
	}
}

// A new connection above a limit displaces the one that has been idle longest: of its
// own source if that is full, else of all. One that is being answered is never displaced.
func TestTheLongestIdleGoesFirst(t *testing.T) {
	p := newPlaces(nil, limit.Limit{Name: connections.Name, Each: 2, Total: 4})
	dial := func(address string) (*place, *place) {
		return p.take(&addressed{remote: &net.TCPAddr{IP: net.ParseIP(address)}})
	}
	a1, _ := dial("192.0.2.1")
	a2, _ := dial("192.0.2.1")
	b1, _ := dial("192.0.2.2")
	p.changed(b1, http.StateActive)
	p.changed(a1, http.StateActive)
	p.changed(a1, http.StateIdle) // a2 is idle longer now
	if _, out := dial("192.0.2.1"); out != a2 {
		t.Errorf("a third of a source displaces %p, want %p", out, a2)
	}
	c1, out := dial("2001:db8::1")
	if out != nil || c1 == nil {
		t.Error("the fourth displaces somebody")
	}
	if _, out = dial("192.0.2.3"); out != a1 {
		t.Errorf("the fifth displaces %p, want %p", out, a1)
	}
	for _, c := range []string{"192.0.2.4", "192.0.2.5", "192.0.2.6"} {
		if taken, out := dial(c); taken == nil || out == nil {
			t.Errorf("%s isn't taken", c)
		} else {
			p.changed(taken, http.StateActive)
		}
	}
	if taken, _ := dial("192.0.2.7"); taken != nil {
		t.Error("one is taken where all are being answered")
	}
	if p.open != 4 || b1.gone {
		t.Errorf("%d are open", p.open)
	}
	must(t, b1.Close())
	must(t, b1.Close())
	if p.open != 3 || len(p.sources) != 3 {
		t.Errorf("%d of %d sources are open", p.open, len(p.sources))
	}
}

type addressed struct {
	net.Conn
	remote net.Addr
}

func (a *addressed) RemoteAddr() net.Addr { return a.remote }
func (a *addressed) Close() error         { return nil }
