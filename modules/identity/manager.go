package identity

import (
	"bytes"
	"unicode/utf8"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

const (
	// maxMessage is the longest message that is signed or opened, in bytes.
	// The longest document is 1 MiB.
	maxMessage = 4 << 20
	// domainPrefix begins croft's signature domains; each ends in a zero byte.
	domainPrefix = "croft-"
	maxDomain    = 64
)

// manager is the module's bus object identityd.manager.
type manager struct{ m *Module }

// NodeID is the base58 of the node's public key.
func (o manager) NodeID() (string, error) { return o.m.key.ID(), nil }

// Sign signs a message in one of croft's domains, or the seed's result form,
// which is text. It refuses any other message, such as a certificate or a TLS
// handshake.
func (o manager) Sign(message []byte) ([]byte, error) {
	if len(message) == 0 || len(message) > maxMessage {
		return nil, node.Errorf(node.Invalid, "cannot sign: the message has %d bytes, must have 1 to %d", len(message), maxMessage)
	}
	if !inDomain(message) && !isText(message) {
		return nil, node.Errorf(node.Refused, "cannot sign: the message is neither in a domain %q nor text", domainPrefix)
	}
	return o.m.key.Sign(message), nil
}

func inDomain(message []byte) bool {
	end := bytes.IndexByte(message[:min(len(message), maxDomain)], 0)
	return end > len(domainPrefix) && bytes.HasPrefix(message, []byte(domainPrefix))
}

func isText(message []byte) bool {
	return utf8.Valid(message) && bytes.IndexByte(message, 0) < 0
}

// Decrypt opens a box that was sealed to the node.
func (o manager) Decrypt(box []byte) ([]byte, error) {
	if len(box) > maxMessage {
		return nil, node.Errorf(node.Invalid, "cannot open box: it has %d bytes, may have %d", len(box), maxMessage)
	}
	plaintext, err := o.m.key.Open(box)
	return plaintext, node.WithKind(node.Invalid, err)
}

// Encrypt seals plaintext to the node itself.
func (o manager) Encrypt(plaintext []byte) ([]byte, error) {
	if len(plaintext) > maxMessage-sign.BoxOverhead {
		return nil, node.Errorf(node.Invalid, "cannot seal: the plaintext has %d bytes, may have %d", len(plaintext), maxMessage-sign.BoxOverhead)
	}
	return sign.Seal(o.m.key.ID(), plaintext)
}
