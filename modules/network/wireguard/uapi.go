package wireguard

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// EncodeUAPI writes a change in the words that a userspace device takes
// (https://www.wireguard.com/xplatform/).
func EncodeUAPI(c wgtypes.Config) string {
	var b strings.Builder
	line := func(key string, value any) { fmt.Fprintf(&b, "%s=%v\n", key, value) }
	if c.PrivateKey != nil {
		line("private_key", hex.EncodeToString(c.PrivateKey[:]))
	}
	if c.ListenPort != nil {
		line("listen_port", *c.ListenPort)
	}
	for _, p := range c.Peers {
		line("public_key", hex.EncodeToString(p.PublicKey[:]))
		if p.Remove {
			line("remove", true)
			continue
		}
		if p.UpdateOnly {
			line("update_only", true)
		}
		if p.Endpoint != nil {
			at := p.Endpoint.AddrPort()
			line("endpoint", netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
		}
		if p.PersistentKeepaliveInterval != nil {
			line("persistent_keepalive_interval", int(p.PersistentKeepaliveInterval.Seconds()))
		}
		if p.ReplaceAllowedIPs {
			line("replace_allowed_ips", true)
		}
		for _, ip := range p.AllowedIPs {
			line("allowed_ip", ip.String())
		}
	}
	return b.String()
}

// ParseUAPI reads the answer of a userspace device to "get".
func ParseUAPI(text string) (Status, error) {
	var s Status
	var seconds, nanos int64
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		var p *PeerStatus
		if n := len(s.Peers); n > 0 {
			p = &s.Peers[n-1]
		}
		var err error
		switch {
		case key == "public_key":
			s.Peers, seconds = append(s.Peers, PeerStatus{}), 0
			s.Peers[len(s.Peers)-1].PublicKey, err = parseHex(value)
		case key == "last_handshake_time_sec" && p != nil:
			seconds, err = strconv.ParseInt(value, 10, 64)
		case key == "last_handshake_time_nsec" && p != nil:
			nanos, err = strconv.ParseInt(value, 10, 64)
			if seconds != 0 {
				p.LastHandshake = time.Unix(seconds, nanos)
			}
		case p != nil:
			err = parsePeerLine(p, key, value)
		default:
			err = parseDeviceLine(&s, key, value)
		}
		if err != nil {
			return Status{}, errors.Wrapf(err, "cannot read %s of a WireGuard device", key)
		}
	}
	return s, nil
}

func parseDeviceLine(s *Status, key, value string) error {
	switch key {
	case "private_key":
		private, err := parseHex(value)
		s.PublicKey = private.Public()
		return err
	case "listen_port":
		port, err := strconv.ParseUint(value, 10, 16)
		s.ListenPort = uint16(port)
		return err
	}
	return nil
}

func parsePeerLine(p *PeerStatus, key, value string) (err error) {
	switch key {
	case "endpoint":
		p.Endpoint, err = netip.ParseAddrPort(value)
	case "persistent_keepalive_interval":
		var seconds uint64
		seconds, err = strconv.ParseUint(value, 10, 16)
		p.Keepalive = time.Duration(seconds) * time.Second
	case "rx_bytes":
		p.Rx, err = strconv.ParseUint(value, 10, 64)
	case "tx_bytes":
		p.Tx, err = strconv.ParseUint(value, 10, 64)
	case "allowed_ip":
		var prefix netip.Prefix
		prefix, err = netip.ParsePrefix(value)
		p.AllowedIPs = append(p.AllowedIPs, prefix)
	}
	return err
}

// parseHex reads a key; the error doesn't quote it.
func parseHex(text string) (Key, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(Key{}) {
		return Key{}, errors.New("it isn't 32 bytes in hex")
	}
	return Key(raw), nil
}
