package talk

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// Signer is a node's key that is somewhere else: only its signatures come here.
type Signer struct {
	public ed25519.PublicKey
	sign   func(message []byte) ([]byte, error)
}

// NewSigner makes a crypto.Signer of the key that nodeID is. Every signature
// is checked before it is used.
func NewSigner(nodeID string, sign func(message []byte) ([]byte, error)) (*Signer, error) {
	public, err := verifyingKey(nodeID)
	if err != nil {
		return nil, err
	}
	return &Signer{public: public, sign: sign}, nil
}

func verifyingKey(nodeID string) (ed25519.PublicKey, error) {
	public, err := sign.VerifyingKey(nodeID)
	return public, node.WithKind(node.Invalid, err)
}

// Public implements crypto.Signer.
func (s *Signer) Public() crypto.PublicKey { return s.public }

// Sign implements crypto.Signer: TLS signs whole messages with ed25519.
func (s *Signer) Sign(_ io.Reader, message []byte, opts crypto.SignerOpts) ([]byte, error) {
	if opts.HashFunc() != crypto.Hash(0) {
		return nil, errors.New("cannot sign: ed25519 signs messages, not hashes of them")
	}
	signature, err := s.sign(message)
	if err != nil {
		return nil, err
	}
	if len(signature) != ed25519.SignatureSize || !ed25519.Verify(s.public, message, signature) {
		return nil, errors.New("cannot sign: what came back isn't a signature of the node's key")
	}
	return signature, nil
}

// Certificate makes a certificate of the key alone, signed by itself. Its
// names and dates mean nothing: who connects knows the key.
func Certificate(signer crypto.Signer) (tls.Certificate, error) {
	public, ok := signer.Public().(ed25519.PublicKey)
	if !ok {
		return tls.Certificate{}, errors.New("cannot make a certificate: the key isn't ed25519")
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: sign.ID(public)},
		NotBefore: time.Unix(0, 0), NotAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, signer)
	if err != nil {
		return tls.Certificate{}, errors.Wrap(err, "cannot make the node's certificate")
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer, SupportedSignatureAlgorithms: []tls.SignatureScheme{tls.Ed25519}}, nil
}

// ServerConfig is a node's TLS: 1.3 only, one certificate, no resumption, so
// that every connection has shown the node's key.
func ServerConfig(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert},
		NextProtos: []string{"http/1.1"}, SessionTicketsDisabled: true,
	}
}

// ClientConfig is a user's TLS to that node and to nobody else.
func ClientConfig(nodeID string) (*tls.Config, error) {
	want, err := verifyingKey(nodeID)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"},
		// No authority vouches for a node, and its certificate's names and
		// dates say nothing: this turns off the check against authorities
		// only. VerifyConnection takes its place, and TLS itself has the other
		// side prove that it holds the certificate's key.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) != 1 {
				return refusedNode(nodeID, "it showed %d certificates, one is allowed", len(s.PeerCertificates))
			}
			got, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
			if !ok {
				return refusedNode(nodeID, "its key isn't ed25519")
			}
			if !got.Equal(want) {
				return refusedNode(nodeID, "it is %s", sign.ID(got))
			}
			return nil
		},
	}, nil
}

func refusedNode(nodeID, why string, args ...any) error {
	return node.Errorf(node.Refused, "cannot speak to node %s: who answers isn't it: "+why, append([]any{nodeID}, args...)...)
}
