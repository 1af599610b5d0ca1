package explorer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
)

// Role is the role in which a key signs a write; each has its own domain, so that a node's
// signature never counts as a user's.
type Role string

// The roles.
const (
	RoleNode Role = "node"
	RoleUser Role = "user"
)

// The headers of a signed write. Exactly one of HeaderNode and HeaderUser is
// there; it holds the ID that verifies HeaderSignature (base64).
// HeaderTimestamp is in nanoseconds since 1970.
const (
	HeaderNode      = "Croft-Node"
	HeaderUser      = "Croft-User"
	HeaderTimestamp = "Croft-Timestamp"
	HeaderSignature = "Croft-Signature"
)

// WriteWindow is how far a signed write's time may be from the explorer's clock.
const WriteWindow = 10 * time.Minute

const (
	domainNodeWrite = "croft-node-write-v1\x00"
	domainUserWrite = "croft-user-write-v1\x00"
	domainFarmJoin  = "croft-farm-join-v1\x00"
)

// Write is a request that changes something and isn't a signed document itself: registrations,
// heartbeats, farms. Its sender signs method, host, path, body and time.
type Write struct {
	Role   Role
	Key    string
	Method string
	// Host is the explorer's name and port as the client dialled it: a write
	// to one explorer is of no use at another.
	Host string
	Path string
	Body []byte
	Time time.Time
}

// SigningBytes are the bytes that the key signs:
// domain LP(key) LP(method) LP(host) LP(path) LP(SHA-256(body)) I64(time, ns).
func (w Write) SigningBytes() []byte {
	domain := domainNodeWrite
	if w.Role == RoleUser {
		domain = domainUserWrite
	}
	body := sha256.Sum256(w.Body)
	out := []byte(domain)
	for _, part := range []string{w.Key, w.Method, strings.ToLower(w.Host), w.Path, string(body[:])} {
		out = appendLP(out, part)
	}
	return binary.BigEndian.AppendUint64(out, uint64(w.Time.UnixNano()))
}

// SetHeaders puts key, time and signature into h.
func (w Write) SetHeaders(h http.Header, signature []byte) {
	name := HeaderNode
	if w.Role == RoleUser {
		name = HeaderUser
	}
	h.Set(name, w.Key)
	h.Set(HeaderTimestamp, strconv.FormatInt(w.Time.UnixNano(), 10))
	h.Set(HeaderSignature, base64.StdEncoding.EncodeToString(signature))
}

// Signed reports whether the request claims to be a signed write.
func Signed(h http.Header) bool {
	return h.Get(HeaderNode) != "" || h.Get(HeaderUser) != "" || h.Get(HeaderSignature) != ""
}

// VerifyWrite returns the request's verified key and time. It checks neither the clock nor replays.
// Every error is Refused.
func VerifyWrite(r *http.Request, body []byte) (Write, error) {
	w := Write{Role: RoleNode, Key: r.Header.Get(HeaderNode), Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Body: body}
	if user := r.Header.Get(HeaderUser); user != "" {
		if w.Key != "" {
			return Write{}, node.Errorf(node.Refused, "cannot verify request: both %s and %s are given, one is allowed", HeaderNode, HeaderUser)
		}
		w.Role, w.Key = RoleUser, user
	}
	if w.Key == "" {
		return Write{}, node.Errorf(node.Refused, "cannot verify request: it isn't signed (headers %s or %s, %s and %s)", HeaderNode, HeaderUser, HeaderTimestamp, HeaderSignature)
	}
	ns, err := strconv.ParseInt(r.Header.Get(HeaderTimestamp), 10, 64)
	if err != nil {
		return Write{}, node.Errorf(node.Refused, "cannot verify request: %s is %.40q, must be nanoseconds since 1970", HeaderTimestamp, r.Header.Get(HeaderTimestamp))
	}
	w.Time = time.Unix(0, ns)
	signature, err := base64.StdEncoding.DecodeString(r.Header.Get(HeaderSignature))
	if err != nil {
		return Write{}, node.Errorf(node.Refused, "cannot verify request: %s isn't base64", HeaderSignature)
	}
	if err := sign.Verify(w.Key, w.SigningBytes(), signature); err != nil {
		return Write{}, node.Errorf(node.Refused, "cannot verify request to %s at host %s: %w", w.Path, w.Host, err)
	}
	return w, nil
}

// Grant is a farm owner's signed permission for a node to join the farm.
type Grant struct {
	Created   time.Time `json:"created"`
	Signature []byte    `json:"signature"`
}

// SigningBytes are the bytes that the farm's owner signs:
// domain LP(node) I64(farm) I64(created, ns).
func (g Grant) SigningBytes(farm uint64, nodeID string) []byte {
	out := appendLP([]byte(domainFarmJoin), nodeID)
	out = binary.BigEndian.AppendUint64(out, farm)
	return binary.BigEndian.AppendUint64(out, uint64(g.Created.UnixNano()))
}

// SignGrant lets nodeID join the farm.
func SignGrant(owner sign.KeyPair, farm uint64, nodeID string, created time.Time) Grant {
	g := Grant{Created: created}
	g.Signature = owner.Sign(g.SigningBytes(farm, nodeID))
	return g
}

// GrantLife is how long a grant holds after it was made.
const GrantLife = 90 * 24 * time.Hour

// Holds refuses a grant outside its time: it ends GrantLife after it was made.
func (g Grant) Holds(now time.Time) error {
	if end := g.Created.Add(GrantLife); now.After(end) {
		return node.Errorf(node.Refused, "cannot let a node join: its grant ended at %s; the farm's owner must sign another", end.UTC().Format(time.RFC3339))
	}
	if g.Created.Sub(now) > WriteWindow {
		return node.Errorf(node.Refused, "cannot let a node join: its grant is of %s, which is to come", g.Created.UTC().Format(time.RFC3339))
	}
	return nil
}

// VerifyGrant checks the farm owner's signature on a grant for nodeID; Holds checks its time.
func VerifyGrant(g Grant, farm Farm, nodeID string) error {
	if err := sign.Verify(farm.Owner, g.SigningBytes(farm.ID, nodeID), g.Signature); err != nil {
		return node.Errorf(node.Refused, "cannot let node %s join farm %d: %w", nodeID, farm.ID, err)
	}
	return nil
}

func appendLP(out []byte, s string) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(s)))
	return append(out, s...)
}
