package conformance

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/sign"
)

// IdentityClient is the interface of the stub of node.IdentityManager.
type IdentityClient interface {
	NodeID(ctx context.Context) (string, error)
	Sign(ctx context.Context, message []byte) ([]byte, error)
	Decrypt(ctx context.Context, box []byte) ([]byte, error)
	Encrypt(ctx context.Context, plaintext []byte) ([]byte, error)
}

// VersionClient is the interface of the stub of node.VersionMonitor.
type VersionClient interface {
	Version(ctx context.Context) (<-chan node.Version, error)
}

// IdentitySubject is a new identity module.
type IdentitySubject struct {
	Client  IdentityClient
	Version VersionClient
	// Running is its configured version.
	Running node.Version
	// Restart ends the module, starts it anew on the same state, and returns
	// the new client.
	Restart func(t *testing.T) IdentityClient
}

// IdentitySuite tests an implementation of node.IdentityManager with its
// node.VersionMonitor. Each part gets its own subject from open.
func IdentitySuite(t *testing.T, open func(t *testing.T) IdentitySubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s IdentitySubject)
	}{
		{"sign", identitySign},
		{"twice", identityTwice},
		{"not everything is signed", identityRefuses},
		{"boxes", identityBoxes},
		{"open what isn't there", identityBadBoxes},
		{"after a restart", identityRestart},
		{"two nodes", func(t *testing.T, s IdentitySubject) { identityTwoNodes(t, s, open(t)) }},
		{"at the same time", identityConcurrent},
		{"version", identityVersion},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(t, open(t)) })
	}
}

func (s IdentitySubject) id(t *testing.T) string {
	t.Helper()
	id, err := s.Client.NodeID(t.Context())
	expect.NoError(t, err)
	return id
}

// signable are messages that a node signs.
func signable() [][]byte {
	return [][]byte{
		[]byte("croft-result-v2\x00\x00\x00\x00\x01\xff\xfe"),
		[]byte("croft-node-write-v1\x00body"),
		[]byte(`{"volume_id":"7-1"}`),
		[]byte(`cannot mount „x“null`),
		[]byte("null"),
	}
}

func identitySign(t *testing.T, s IdentitySubject) {
	for _, message := range signable() {
		signature, err := s.Client.Sign(t.Context(), message)
		expect.NoError(t, err)
		if err := sign.Verify(s.id(t), message, signature); err != nil {
			t.Errorf("the signature of %q isn't the node's: %v", message, err)
		}
		if err := sign.Verify(s.id(t), append([]byte("x"), message...), signature); err == nil {
			t.Errorf("the signature of %q is good for another message", message)
		}
	}
}

func identityTwice(t *testing.T, s IdentitySubject) {
	if a, b := s.id(t), s.id(t); a != b {
		t.Errorf("the node ID is %s, then %s", a, b)
	}
	a, err := s.Client.Sign(t.Context(), signable()[0])
	expect.NoError(t, err)
	b, err := s.Client.Sign(t.Context(), signable()[0])
	expect.NoError(t, err)
	if !bytes.Equal(a, b) {
		t.Error("two signatures of one message differ")
	}
}

func identityRefuses(t *testing.T, s IdentitySubject) {
	_, err := s.Client.Sign(t.Context(), nil)
	expect.Kind(t, err, node.Invalid)
	for _, message := range []string{
		"\x30\x82\x01\x0a\x02\x82", // a certificate's beginning
		strings.Repeat(" ", 64) + "TLS 1.3, server CertificateVerify\x00" + strings.Repeat("a", 32),
		"other-domain-v1\x00{}",
		"croft-\x00{}",
		"\xff\xfe",
	} {
		_, err := s.Client.Sign(t.Context(), []byte(message))
		expect.Kind(t, err, node.Refused)
	}
}

func identityBoxes(t *testing.T, s IdentitySubject) {
	for _, plaintext := range [][]byte{{}, []byte("a secret"), bytes.Repeat([]byte{0, 255}, 5000)} {
		for name, seal := range map[string]func() ([]byte, error){
			"by itself": func() ([]byte, error) { return s.Client.Encrypt(t.Context(), plaintext) },
			"by a user": func() ([]byte, error) { return sign.Seal(s.id(t), plaintext) },
		} {
			box, err := seal()
			expect.NoError(t, err)
			if len(plaintext) > 0 && bytes.Contains(box, plaintext) {
				t.Errorf("the box made %s shows what is in it", name)
			}
			opened, err := s.Client.Decrypt(t.Context(), box)
			expect.NoError(t, err)
			if !bytes.Equal(opened, plaintext) {
				t.Errorf("the box made %s holds %d bytes, want %d", name, len(opened), len(plaintext))
			}
		}
	}
}

func identityBadBoxes(t *testing.T, s IdentitySubject) {
	box, err := s.Client.Encrypt(t.Context(), []byte("a secret"))
	expect.NoError(t, err)
	changed := bytes.Clone(box)
	changed[len(changed)-1] ^= 1
	random := make([]byte, 100)
	rand.Read(random)
	for name, bad := range map[string][]byte{
		"nothing": nil, "one byte": {1}, "47 bytes": random[:47], "48 bytes": random[:48], "random": random,
		"cut": box[:len(box)-1], "changed": changed,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Client.Decrypt(t.Context(), bad)
			expect.Kind(t, err, node.Invalid)
		})
	}
}

func identityRestart(t *testing.T, s IdentitySubject) {
	id := s.id(t)
	box, err := s.Client.Encrypt(t.Context(), []byte("a secret"))
	expect.NoError(t, err)
	s.Client = s.Restart(t)
	if again := s.id(t); again != id {
		t.Errorf("after a restart the node is %s, before %s", again, id)
	}
	opened, err := s.Client.Decrypt(t.Context(), box)
	expect.NoError(t, err)
	if string(opened) != "a secret" {
		t.Errorf("after a restart the box holds %q", opened)
	}
}

func identityTwoNodes(t *testing.T, a, b IdentitySubject) {
	if a.id(t) == b.id(t) {
		t.Fatal("two nodes have one ID")
	}
	box, err := a.Client.Encrypt(t.Context(), []byte("a secret"))
	expect.NoError(t, err)
	_, err = b.Client.Decrypt(t.Context(), box)
	expect.Kind(t, err, node.Invalid)
}

func identityConcurrent(t *testing.T, s IdentitySubject) {
	id := s.id(t)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			message := []byte("croft-result-v2\x00" + rand.Text())
			signature, err := s.Client.Sign(t.Context(), message)
			if err == nil {
				err = sign.Verify(id, message, signature)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func identityVersion(t *testing.T, s IdentitySubject) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	versions, err := s.Version.Version(ctx)
	expect.NoError(t, err)
	if v := expect.Receive(t, versions); v != s.Running {
		t.Errorf("the version is %+v, want %+v", v, s.Running)
	}
	cancel()
	expect.Closed(t, versions)
}
