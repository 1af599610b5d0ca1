package nodeapi_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
)

// shake connects a client and a server, and returns each side's error.
func shake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	near, far := pair(t)
	done := make(chan error, 1)
	go func() {
		conn := tls.Server(far, server)
		err := conn.HandshakeContext(t.Context())
		if err == nil {
			_, err = conn.Read(make([]byte, 1))
		}
		done <- err
	}()
	conn := tls.Client(near, client)
	clientErr = conn.HandshakeContext(t.Context())
	_ = conn.Close()
	return clientErr, <-done
}

func key(t *testing.T) sign.KeyPair {
	t.Helper()
	k, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func configs(t *testing.T, k sign.KeyPair) (client, server *tls.Config) {
	t.Helper()
	server, err := nodeapi.ServerConfig(k.ID(), func(_ context.Context, m []byte) ([]byte, error) { return k.Sign(m), nil })
	if err != nil {
		t.Fatal(err)
	}
	if client, err = nodeapi.ClientConfig(k.ID()); err != nil {
		t.Fatal(err)
	}
	return client, server
}

func TestTheNodeIsKnownByItsKeyAlone(t *testing.T) {
	k := key(t)
	client, server := configs(t, k)
	if err, _ := shake(t, client, server); err != nil {
		t.Errorf("the node itself: %v", err)
	}
	other, _ := configs(t, key(t))
	if err, _ := shake(t, other, server); !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "another peer answers") {
		t.Errorf("asked for another node: %v", err)
	}
	if _, err := nodeapi.ClientConfig("11111111111111111111111111111111"); node.KindOf(err) != node.Invalid {
		t.Errorf("a weak key: %v", err)
	}
}

func TestOldTLSIsRefused(t *testing.T) {
	client, server := configs(t, key(t))
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if err, _ := shake(t, client, server); err == nil {
		t.Error("TLS 1.2 is spoken")
	}
}

// A certificate seen before is of no use: the next challenge is different.
func TestAnOldProofIsRefused(t *testing.T) {
	k := key(t)
	client, server := configs(t, k)
	old, err := server.GetCertificate(&tls.ClientHelloInfo{ServerName: client.ServerName})
	if err != nil {
		t.Fatal(err)
	}
	replaying := &tls.Config{Certificates: []tls.Certificate{*old}, MinVersion: tls.VersionTLS13}
	if err, _ := shake(t, client, replaying); err != nil {
		t.Errorf("the challenge's own: %v", err)
	}
	again, err := nodeapi.ClientConfig(k.ID())
	if err != nil {
		t.Fatal(err)
	}
	if err, _ := shake(t, again, replaying); !errors.Is(err, node.Refused) {
		t.Errorf("another challenge: %v", err)
	}
}

// A key of another kind is refused, whatever its certificate says.
func TestAnotherKindOfKeyIsRefused(t *testing.T) {
	k := key(t)
	client, _ := configs(t, k)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: k.ID()}, NotAfter: time.Now().Add(time.Hour),
		URIs: []*url.URL{{Scheme: "croft", Opaque: k.ID(), RawQuery: "proof=00"}}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}, MinVersion: tls.VersionTLS13}
	if err, _ := shake(t, client, server); !errors.Is(err, node.Refused) || !strings.Contains(err.Error(), "isn't ed25519") {
		t.Errorf("got %v", err)
	}
}

// A client without a challenge gets no signature of the node.
func TestNothingIsSignedForNoChallenge(t *testing.T) {
	k := key(t)
	server, err := nodeapi.ServerConfig(k.ID(), func(context.Context, []byte) ([]byte, error) {
		t.Error("something is signed")
		return nil, errors.New("no")
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "node.example.org", "aabb.door.croft", strings.Repeat("zz", 16) + ".door.croft", strings.Repeat("aa", 16)} {
		if err, _ := shake(t, &tls.Config{ServerName: name, InsecureSkipVerify: true}, server); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
