package image_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/node"
)

const password = "very:secret-password"

// silent fails when the password, or a header made of it, was logged or said.
func (w *world) silent(err error) {
	w.t.Helper()
	text := w.logs.String()
	if err != nil {
		text += err.Error()
	}
	for _, secret := range []string{"secret-password", "dmVyeTpzZWNyZXQ", "bWU6dmVyeTpzZWNyZXQtcGFzc3dvcmQ", "a-token-of"} {
		if strings.Contains(text, secret) {
			w.t.Errorf("%q was said", secret)
		}
	}
}

func TestRegistriesThatWantCredentials(t *testing.T) {
	t.Parallel()
	for _, token := range []bool{false, true} {
		w := open(t)
		w.push(sample(), "app:1")
		w.registry.Set(imagetest.Faults{User: "me", Password: password, Token: token})
		w.fails(spec("1-1", w.ref("app:1")), node.Refused)
		wrong := spec("1-2", w.ref("app:1"))
		wrong.Auth = "me:no-secret-password"
		w.fails(wrong, node.Refused)
		// Another password is another try.
		wrong.Auth = "me:" + password
		w.ready(wrong)
		w.silent(nil)
	}
}

func TestCredentialsGoNowhereElse(t *testing.T) {
	w := open(t)
	other, err := imagetest.StartRegistry()
	must(t, err)
	t.Cleanup(func() { other.Close() })
	w.cfg.Sources.Dialer = dialer(t, w.registry.Host, other.Host)
	w.cfg.Sources.PlainHTTP = append(w.cfg.Sources.PlainHTTP, other.Host)
	w.again()
	w.push(sample(), "app:1")
	_, err = sample().Push(t.Context(), other.Host+"/app:1", other.Behind())
	must(t, err)
	for _, token := range []bool{false, true} {
		w.registry.Set(imagetest.Faults{User: "me", Password: password, Token: token, Redirect: "http://" + other.Host})
		s := spec("1-1", w.ref("app:1"))
		s.Auth = "me:" + password
		w.ready(s)
		if seen := other.Seen(); len(seen.Credentials) != 0 || seen.Blobs == 0 {
			t.Errorf("the other registry has seen %+v, want blobs and no credentials", seen)
		}
		must(t, w.Release(t.Context(), "1-1"))
		must(t, w.Collect(t.Context()))
	}
	w.silent(nil)
}

// A redirect and who gives tokens are the registry's choice, and lead nowhere
// that the operator doesn't allow.
func TestRegistriesLeadNowhereInside(t *testing.T) {
	w := open(t)
	other, err := imagetest.StartRegistry()
	must(t, err)
	t.Cleanup(func() { other.Close() })
	w.push(sample(), "app:1")
	s := spec("1-1", w.ref("app:1"))
	s.Auth = "me:" + password
	for what, f := range map[string]imagetest.Faults{
		"plain HTTP":            {Redirect: "http://" + other.Host},
		"this machine":          {Redirect: "https://" + other.Host},
		"a private address":     {Redirect: "https://10.0.0.1"},
		"a cloud's metadata":    {Redirect: "https://169.254.169.254"},
		"tokens over plain":     {User: "me", Password: password, Token: true, Realm: "http://" + other.Host + "/token"},
		"tokens from somewhere": {User: "me", Password: password, Token: true, Realm: "https://" + other.Host + "/token"},
	} {
		w.registry.Set(f)
		_, err := w.result(s)
		wantError(t, err, node.Refused)
		w.silent(err)
		must(t, w.Release(t.Context(), "1-1"))
		if n := other.Seen().Requests; n != 0 {
			t.Errorf("%s: the other one was asked %d times", what, n)
		}
	}
	for _, host := range []string{other.Host, "10.0.0.1:5000", "[::1]:5000", "169.254.169.254"} {
		w.fails(spec("1-2", "docker://"+host+"/app:1"), node.Refused)
	}
}

func TestRegistriesAreAskedOverTLS(t *testing.T) {
	t.Parallel()
	w := open(t)
	config, pool := certificate(t)
	safe, err := imagetest.StartTLSRegistry(config)
	must(t, err)
	t.Cleanup(func() { safe.Close() })
	_, err = sample().Push(t.Context(), safe.Host+"/app:1", safe.Behind())
	must(t, err)
	w.cfg.Sources.Dialer = dialer(t, w.registry.Host, safe.Host)
	w.again()
	// Nobody has signed its certificate; that may be the clock, so it isn't final.
	_, err = w.result(spec("1-1", "docker://"+safe.Host+"/app:1"))
	wantError(t, err, node.Transient, "certificate")
	must(t, w.Release(t.Context(), "1-1"))
	w.cfg.Sources.TLS = &tls.Config{RootCAs: pool}
	w.again()
	w.ready(spec("1-2", "docker://"+safe.Host+"/app:1"))
	// A registry that speaks plain HTTP and isn't listed.
	w.push(sample(), "app:1")
	w.cfg.Sources.PlainHTTP = nil
	w.again()
	w.registry.Forget()
	_, err = w.result(spec("1-3", w.ref("app:1")))
	wantError(t, err, node.Transient)
	if n := w.registry.Seen().Requests; n != 0 {
		t.Errorf("it was asked %d times over plain HTTP", n)
	}
}

// certificate is one for 127.0.0.1, and who trusts it.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "registry"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	parsed, err := x509.ParseCertificate(raw)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}, pool
}
