package zdb

import (
	"bytes"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"github.com/rs/zerolog"
)

const (
	// mostWrong is how many wrong passwords a connection may try.
	mostWrong = 32
	hashSize  = 40

	textNoChallenge = "No CHALLENGE requested, secure authentication not available"
	textNotSecure   = "Only SECURE extra method supported"
	textHashLength  = "Invalid hash length"
	textFull        = "Too many connections in this namespace"
)

// access decides the rights of sessions: AUTH and SELECT.
type access struct {
	v2       bool   // see Config.Compat
	password string // Config.Admin
	protect  bool   // Config.Protect
	socket   bool   // Config.AdminSocket
	log      zerolog.Logger
	count    *counters
	attempts *attempts
	named    func(name []byte) *namespace // nil for none
}

// enter gives a new session its rights, in default.
func (a *access) enter(c *session) {
	c.admin = c.conn.Admin || a.password == "" && !a.socket
	c.writable = c.conn.Admin || !a.protect && !a.socket
	c.stand(c.ns, c.writable, false)
}

// auth makes c an admin's connection.
func (a *access) auth(c *session, args [][]byte) {
	switch {
	case len(args) == 3 && a.v2:
		a.authSecure(c, args)
	case len(args) != 2:
		c.fail("Unexpected arguments")
	case !a.v2 && len(args[1]) == 0:
		c.fail("Invalid argument")
	case a.password == "" && !a.v2:
		c.fail("Authentification disabled")
	case a.password == "":
		c.fail("Authentication disabled")
	case len(args[1]) == 0:
		c.fail("Invalid argument")
	case len(args[1]) > mostPassword:
		c.fail("Password too long")
	default:
		given := bytes.Clone(args[1])
		a.attempts.try(c, func() { a.becomeAdmin(c, same(given, a.password)) })
	}
}

// becomeAdmin answers AUTH.
func (a *access) becomeAdmin(c *session, right bool) {
	if !right {
		a.wrong(c)
		return
	}
	admin := c.admin
	c.admin, c.authed = true, true
	if !c.stand(c.ns, c.writable, c.proven) {
		c.admin, c.authed = admin, false
		c.fail(textFull)
		return
	}
	c.ok()
}

// authSecure asks for a challenge, or answers one: the password itself doesn't
// pass the network.
func (a *access) authSecure(c *session, args [][]byte) {
	switch {
	case len(args[1]) == 0 || len(args[2]) == 0:
		c.fail("Invalid argument")
	case !short("SECURE", args[1]):
		c.fail(textNotSecure)
	case short("CHALLENGE", args[2]):
		var random [8]byte
		_, _ = rand.Read(random[:]) // never fails
		c.challenge = hex.EncodeToString(random[:])
		c.line(c.challenge)
	case a.password == "":
		c.fail("Authentication disabled")
	case c.challenge == "":
		c.fail(textNoChallenge)
	case len(args[2]) != hashSize:
		c.fail(textHashLength)
	default:
		right := same(args[2], hashed(c.challenge, a.password))
		c.challenge = ""
		a.attempts.try(c, func() { a.becomeAdmin(c, right) })
	}
}

// selectNamespace moves c to another namespace. Whether it may write there is
// decided now, and for as long as it stays.
func (a *access) selectNamespace(c *session, args [][]byte) {
	if len(args) < 2 {
		c.fail("Invalid argument")
		return
	}
	if len(args[1]) > mostName {
		c.fail("Namespace too long")
		return
	}
	ns := a.named(args[1])
	if ns == nil {
		c.fail(textNotFound)
		return
	}
	switch password := a.passwordOf(ns); {
	case password == "", ns.number == 0 && c.conn.Admin:
		a.moveTo(c, ns, true, false)
	case len(args) < 3 && ns.Private:
		c.fail("Namespace protected and private")
	case len(args) < 3:
		a.moveTo(c, ns, false, false)
	default:
		a.selectWith(c, ns, args[2:])
	}
}

// moveTo moves c to a namespace, unless there is no place in it. proven is true if
// it gave the namespace's password.
func (a *access) moveTo(c *session, ns *namespace, writable, proven bool) {
	if ns.number == 0 && a.socket && !a.protect && !c.admin {
		writable = false
	}
	if !c.stand(ns, writable, proven) {
		c.fail(textFull)
		return
	}
	c.ns, c.writable, c.proven = ns, writable, proven
	c.ok()
}

// passwordOf is the password that SELECT of ns asks for, "" for none.
func (a *access) passwordOf(ns *namespace) string {
	if ns.number == 0 && a.protect {
		return a.password
	}
	return ns.Password
}

// selectWith moves c to a namespace if the arguments of SELECT prove its password.
func (a *access) selectWith(c *session, ns *namespace, given [][]byte) {
	plain := len(given) == 1 || !a.v2
	switch {
	case plain && len(given[0]) > 255:
		c.fail("Password too long")
	case plain:
		text := bytes.Clone(given[0])
		a.attempts.try(c, func() { a.selected(c, ns, func(password string) bool { return same(text, password) }) })
	case len(given) > 2:
		c.fail("Too many arguments")
	case !short("SECURE", given[0]):
		c.fail(textNotSecure)
	case c.challenge == "":
		c.fail(textNoChallenge)
	case len(given[1]) != hashSize:
		c.fail(textHashLength)
	default:
		hash := bytes.Clone(given[1])
		a.attempts.try(c, func() {
			a.selected(c, ns, func(password string) bool { return same(hash, hashed(c.challenge, password)) })
		})
	}
}

// selected answers SELECT with a password, which may have changed while it waited,
// as may the namespace.
func (a *access) selected(c *session, ns *namespace, right func(password string) bool) {
	password := a.passwordOf(ns)
	switch {
	case ns.gone:
		c.fail(textNotFound)
	case password != "" && !right(password):
		a.wrong(c)
	default:
		a.moveTo(c, ns, true, password != "")
	}
}

// wrong answers a wrong password. A client with too many is disconnected.
func (a *access) wrong(c *session) {
	a.count.wrong++
	a.attempts.wrong(c)
	c.fail("Access denied")
	if c.wrong >= mostWrong {
		a.log.Warn().Str("namespace", c.ns.Name).Int("tries", c.wrong).Msg("a client is disconnected: too many wrong passwords")
		c.conn.CloseAfter()
	}
}

// same compares in constant time.
func same(given []byte, want string) bool {
	a, b := sha256.Sum256(given), sha256.Sum256([]byte(want)) // so that lengths don't show either
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// hashed is the form of a password in AUTH SECURE and SELECT SECURE.
func hashed(challenge, password string) string {
	sum := sha1.Sum([]byte(challenge + ":" + password))
	return hex.EncodeToString(sum[:])
}

// short reports whether given is word or a prefix of it, in any case.
func short(word string, given []byte) bool {
	return len(given) > 0 && len(given) <= len(word) && strings.EqualFold(word[:len(given)], string(given))
}
