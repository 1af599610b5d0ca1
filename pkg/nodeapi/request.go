package nodeapi

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// domainRequest begins the bytes that a user signs for a request to a node.
const domainRequest = "croft-request-v2\x00"

// HeaderNonce holds a request's nonce, beside explorer.HeaderUser,
// HeaderTimestamp and HeaderSignature.
const HeaderNonce = "Croft-Nonce"

// nonceSize and bindingSize are in bytes.
const (
	nonceSize   = 16
	bindingSize = 32
)

// bindingLabel names the secret that only the two ends of a TLS connection know.
const bindingLabel = "EXPORTER-croft-request-v2"

// Request is the content of a user's signature: this request, to this node, on this connection.
type Request struct {
	Node string
	User string
	// Method, Target (the path with its query, as sent) and Body are the request's.
	Method string
	Target string
	Body   []byte
	Time   time.Time
	Nonce  []byte
	// Binding identifies the TLS connection, see Binding.
	Binding []byte
}

// SigningBytes are the bytes that the user signs.
func (r Request) SigningBytes() []byte {
	body := sha256.Sum256(r.Body)
	out := []byte(domainRequest)
	for _, part := range []string{r.Node, r.User, r.Method, r.Target, string(body[:])} {
		out = appendLP(out, part)
	}
	out = binary.BigEndian.AppendUint64(out, uint64(r.Time.UnixNano()))
	return appendLP(appendLP(out, string(r.Nonce)), string(r.Binding))
}

func appendLP(out []byte, s string) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(s)))
	return append(out, s...)
}

// Sign sets the nonce and the headers of a request by user.
func (r Request) Sign(user sign.KeyPair, h http.Header) {
	r.User, r.Nonce = user.ID(), make([]byte, nonceSize)
	_, _ = rand.Read(r.Nonce) // never fails, according to its documentation
	h.Set(explorer.HeaderUser, r.User)
	h.Set(explorer.HeaderTimestamp, strconv.FormatInt(r.Time.UnixNano(), 10))
	h.Set(HeaderNonce, base64.StdEncoding.EncodeToString(r.Nonce))
	h.Set(explorer.HeaderSignature, base64.StdEncoding.EncodeToString(user.Sign(r.SigningBytes())))
}

// Binding is a secret of the connection's two ends, different on each of their
// connections: a signature over it is of use here only.
func Binding(s *tls.ConnectionState) ([]byte, error) {
	if s == nil || s.Version != tls.VersionTLS13 {
		return nil, errors.New("cannot bind a request: the connection isn't TLS 1.3")
	}
	out, err := s.ExportKeyingMaterial(bindingLabel, nil, bindingSize)
	return out, errors.Wrap(err, "cannot bind a request to its connection")
}

// requestOf reads the signed content of r, but for its Binding, and its signature.
func requestOf(nodeID string, r *http.Request, body []byte) (Request, []byte, error) {
	out := Request{Node: nodeID, User: r.Header.Get(explorer.HeaderUser), Method: r.Method, Target: r.RequestURI, Body: body}
	if out.User == "" || r.Header.Get(explorer.HeaderSignature) == "" {
		return out, nil, refusedRequest("it isn't signed (headers %s, %s, %s and %s)",
			explorer.HeaderUser, explorer.HeaderTimestamp, HeaderNonce, explorer.HeaderSignature)
	}
	for _, name := range []string{explorer.HeaderUser, explorer.HeaderTimestamp, HeaderNonce, explorer.HeaderSignature} {
		if n := len(r.Header.Values(name)); n != 1 {
			return out, nil, refusedRequest("%s is there %d times, must be there once", name, n)
		}
	}
	if !strings.HasPrefix(out.Target, "/") {
		return out, nil, refusedRequest("its target %.40q doesn't begin with /", out.Target)
	}
	ns, err := strconv.ParseInt(r.Header.Get(explorer.HeaderTimestamp), 10, 64)
	if err != nil {
		return out, nil, refusedRequest("%s is %.40q, must be nanoseconds since 1970", explorer.HeaderTimestamp, r.Header.Get(explorer.HeaderTimestamp))
	}
	out.Time = time.Unix(0, ns)
	out.Nonce, err = base64.StdEncoding.Strict().DecodeString(r.Header.Get(HeaderNonce))
	if err != nil || len(out.Nonce) != nonceSize {
		return out, nil, refusedRequest("%s isn't the base64 of %d bytes", HeaderNonce, nonceSize)
	}
	signature, err := base64.StdEncoding.Strict().DecodeString(r.Header.Get(explorer.HeaderSignature))
	if err != nil {
		return out, nil, refusedRequest("%s isn't base64", explorer.HeaderSignature)
	}
	return out, signature, nil
}

func refusedRequest(why string, args ...any) error {
	return node.Errorf(node.Refused, "cannot verify request: "+why, args...)
}
