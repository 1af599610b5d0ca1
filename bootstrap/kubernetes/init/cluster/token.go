package cluster

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"
)

// Token is a Kubernetes bootstrap token, ID.Secret: 6 and 16 characters of a-z and 0-9.
type Token struct{ ID, Secret string }

// String hides the secret, so that no log shows it.
func (t Token) String() string { return t.ID + ".***" }

// GoString hides the secret.
func (t Token) GoString() string { return t.String() }

// Text is the token as the API server takes it.
func (t Token) Text() string { return t.ID + "." + t.Secret }

// Everybody on the network may read cluster-info, and try secrets against its signature. So a derivation is slow: some
// 50 ms of a processor.
const (
	rounds     = 200_000
	tokenBytes = 14 // 22 characters of 5 bits
	idLength   = 6
	length     = 22
)

// Derive returns the bootstrap token of the control plane with that IP address. The machines of a cluster share the
// secret, so that they derive the same token; other control planes with the same secret have other tokens.
func Derive(secret, control string) (Token, error) {
	key, err := pbkdf2.Key(sha256.New, secret, []byte("croft kubernetes bootstrap token v1 "+control), rounds, tokenBytes)
	if err != nil {
		return Token{}, fmt.Errorf("cannot derive the bootstrap token: %w", err)
	}
	text := strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(key))
	return Token{ID: text[:idLength], Secret: text[idLength:length]}, nil
}
