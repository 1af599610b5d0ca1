package web

import (
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestRequestHosts(t *testing.T) {
	listen := []netip.AddrPort{netip.MustParseAddrPort("10.1.1.20:7681"), netip.MustParseAddrPort("[fd00::20]:7681"), netip.MustParseAddrPort("10.1.1.20:80")}
	g := newGuard(listen, []string{"web", "web.net1", ""})
	local := netip.MustParseAddrPort("10.1.1.20:7681")
	for host, want := range map[string]bool{
		"10.1.1.20:7681":               true,
		"10.1.1.20":                    true, // port 80
		"[fd00::20]:7681":              true,
		"[::ffff:10.1.1.20]:7681":      true,
		"web:7681":                     true,
		"WEB:7681":                     true,
		"web":                          true,
		"web.croft.internal:7681":      true,
		"web.net1:7681":                true,
		"10.1.1.20:7682":               false,
		"10.1.1.21:7681":               false,
		"[fd00::20]":                   false,
		"[fd00::20%eth0]:7681":         false,
		"[fd00::20":                    false,
		"fd00::20":                     false,
		"127.0.0.1:7681":               false,
		"localhost:7681":               false,
		"evil.example:7681":            false,
		"web.evil.example:7681":        false,
		"web.net1.croft.internal:7681": false,
		"10.1.1.20.evil.example:7681":  false,
		"web:7682":                     false,
		"web:":                         false,
		"web:7681:7681":                false,
		":7681":                        false,
		"":                             false,
		".croft.internal:7681":         false,
		"0.0.0.0:7681":                 false,
	} {
		if got := g.allows(host, local); got != want {
			t.Errorf("host %q: allowed %v, must be %v", host, got, want)
		}
	}
	// A server that listens on all addresses answers for the one that the request came to.
	everywhere := newGuard([]netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:7681")}, nil)
	if !everywhere.allows("10.1.1.20:7681", local) || everywhere.allows("10.1.1.21:7681", local) {
		t.Error("a server that listens everywhere must answer for the address that was asked, and for no other")
	}
}

func TestOnlyItsOwnPageOpensATerminal(t *testing.T) {
	const host = "10.1.1.20:7681"
	for origin, want := range map[string]bool{
		"http://10.1.1.20:7681":              true,
		"https://10.1.1.20:7681":             false,
		"http://10.1.1.20":                   false,
		"http://10.1.1.20:7681.evil.example": false,
		"http://evil.example":                false,
		"null":                               false,
		"":                                   false,
	} {
		r := httptest.NewRequest("GET", "http://"+host+"/ws", nil)
		r.Header.Set("Origin", origin)
		if got := ownPage(r); got != want {
			t.Errorf("origin %q: %v, must be %v", origin, got, want)
		}
	}
	r := httptest.NewRequest("GET", "http://"+host+"/ws", nil)
	if ownPage(r) {
		t.Error("a request without Origin doesn't come from a page of ours")
	}
	r.Header.Add("Origin", "http://"+host)
	r.Header.Add("Origin", "http://evil.example")
	if ownPage(r) {
		t.Error("two origins are one too many")
	}
}
