package nodeapi

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"math/big"
	"net/url"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// domainDoor begins the bytes that a node signs to show that a TLS key speaks for it.
const domainDoor = "croft-door-v1\x00"

// The node's own key signs nothing of TLS, only bytes of croft's own domains.
// So each connection has a challenge, which the user sends as the server's name
// (CHALLENGE.door.croft, 32 hexadecimal digits), and its answer, which the node
// puts into its certificate as the alternative name
// croft:NODE?proof=SIGNATURE. A certificate is good for one connection.
const (
	challengeSize = 16
	nameSuffix    = ".door.croft"
	proofScheme   = "croft"
	proofKey      = "proof"
)

// ProofBytes are the bytes that a node signs to state: this TLS key speaks for
// me, now, to the sender of this challenge.
func ProofBytes(nodeID string, challenge []byte, key ed25519.PublicKey) []byte {
	out := appendLP([]byte(domainDoor), nodeID)
	out = appendLP(out, string(challenge))
	return appendLP(out, string(key))
}

// Signer signs with a node's key, which may be in another process.
type Signer func(ctx context.Context, message []byte) ([]byte, error)

// ServerConfig is a node's TLS: 1.3 only, with a key that lives as long as the
// process, and no resumption: every connection shows the node's key.
func ServerConfig(nodeID string, by Signer) (*tls.Config, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make the key of the user API's certificate")
	}
	return ServerConfigOf(nodeID, key, func(ctx context.Context, challenge []byte) ([]byte, error) {
		return by(ctx, ProofBytes(nodeID, challenge, key.Public().(ed25519.PublicKey)))
	})
}

// Prover answers a challenge: with the node's signature of ProofBytes of it and of a
// TLS key.
type Prover func(ctx context.Context, challenge []byte) ([]byte, error)

// ServerConfigOf is ServerConfig with the TLS key that prove answers for. The owner of
// that key needs no other signatures of the node.
func ServerConfigOf(nodeID string, key ed25519.PrivateKey, prove Prover) (*tls.Config, error) {
	if _, err := verifyingKey(nodeID); err != nil {
		return nil, err
	}
	plain, err := certificate(nodeID, key, nil)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			challenge, ok := challengeOf(hello.ServerName)
			if !ok {
				// A client without a challenge gets no proof. A croft refuses that.
				return plain, nil
			}
			proof, err := prove(hello.Context(), challenge)
			if err != nil {
				return nil, err
			}
			return certificate(nodeID, key, proof)
		},
	}, nil
}

// challengeOf reads the challenge in a server name.
func challengeOf(name string) ([]byte, bool) {
	text, ok := strings.CutSuffix(name, nameSuffix)
	challenge, err := hex.DecodeString(text)
	return challenge, ok && err == nil && len(challenge) == challengeSize
}

// certificate makes a self-signed certificate of key. Its names and dates mean
// nothing but for the proof.
func certificate(nodeID string, key ed25519.PrivateKey, proof []byte) (*tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: nodeID},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if proof != nil {
		template.URIs = []*url.URL{{Scheme: proofScheme, Opaque: nodeID, RawQuery: proofKey + "=" + hex.EncodeToString(proof)}}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, errors.Wrap(err, "cannot make the node's certificate")
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// ClientConfig is a user's TLS to that node and to nobody else, for one connection.
func ClientConfig(nodeID string) (*tls.Config, error) {
	if _, err := verifyingKey(nodeID); err != nil {
		return nil, err
	}
	challenge := make([]byte, challengeSize)
	_, _ = rand.Read(challenge) // never fails, according to its documentation
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}, ServerName: hex.EncodeToString(challenge) + nameSuffix,
		// No authority vouches for a node, and its certificate's names and dates say
		// nothing: this turns off the check against authorities only.
		// VerifyConnection takes its place, and TLS itself has the other side prove
		// that it holds the certificate's key.
		InsecureSkipVerify: true,
		VerifyConnection:   func(s tls.ConnectionState) error { return verifyNode(nodeID, challenge, s) },
	}, nil
}

// verifyNode checks that the node's key has answered the challenge for the key
// at the other end of this connection.
func verifyNode(nodeID string, challenge []byte, s tls.ConnectionState) error {
	if len(s.PeerCertificates) != 1 {
		return refusedNode(nodeID, "it showed %d certificates, one is allowed", len(s.PeerCertificates))
	}
	key, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok {
		return refusedNode(nodeID, "the key of its certificate isn't ed25519")
	}
	if n := len(s.PeerCertificates[0].URIs); n != 1 {
		return refusedNode(nodeID, "it sent %d answers to the challenge, one is allowed", n)
	}
	name := s.PeerCertificates[0].URIs[0]
	if name.Scheme != proofScheme || name.Opaque != nodeID {
		return refusedNode(nodeID, "it says that it is %.60q", name.Opaque)
	}
	proof, err := hex.DecodeString(strings.TrimPrefix(name.RawQuery, proofKey+"="))
	if err != nil {
		return refusedNode(nodeID, "its answer isn't one")
	}
	if err := sign.Verify(nodeID, ProofBytes(nodeID, challenge, key), proof); err != nil {
		return refusedNode(nodeID, "it doesn't have the node's key: %w", err)
	}
	return nil
}

func refusedNode(nodeID, why string, args ...any) error {
	return node.Errorf(node.Refused, "cannot speak to node %s: another peer answers: "+why, append([]any{nodeID}, args...)...)
}

func verifyingKey(id string) (ed25519.PublicKey, error) {
	public, err := sign.VerifyingKey(id)
	return public, node.WithKind(node.Invalid, err)
}
