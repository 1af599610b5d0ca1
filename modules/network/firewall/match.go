package firewall

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers of 16 bytes each: an interface name fills the first, so the rest of a
// concatenated key is loaded into the second.
const (
	reg1 = unix.NFT_REG_1
	reg2 = unix.NFT_REG_2
)

// Matched types of ICMP and ICMPv6.
const (
	echoRequest           = 8
	echoRequest6          = 128
	routerAdvertisement   = 134
	neighborSolicitation  = 135
	neighborAdvertisement = 136
	redirect6             = 137
)

func is(data ...byte) expr.Any  { return &expr.Cmp{Op: expr.CmpOpEq, Register: reg1, Data: data} }
func not(data ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpNeq, Register: reg1, Data: data} }

func verdict(kind expr.VerdictKind, chain string) rule {
	return rule{&expr.Verdict{Kind: kind, Chain: chain}}
}

func accept() rule                   { return verdict(expr.VerdictAccept, "") }
func drop() rule                     { return verdict(expr.VerdictDrop, "") }
func goTo(chain string) rule         { return verdict(expr.VerdictGoto, chain) }
func masquerade() rule               { return rule{&expr.Masq{}} }
func meta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: reg1} }

// name16 is an interface's name as the kernel compares it.
func name16(name string) []byte {
	out := make([]byte, unix.IFNAMSIZ)
	copy(out, name)
	return out
}

func from(name string) rule      { return rule{meta(expr.MetaKeyIIFNAME), is(name16(name)...)} }
func fromOther(name string) rule { return rule{meta(expr.MetaKeyIIFNAME), not(name16(name)...)} }
func to(name string) rule        { return rule{meta(expr.MetaKeyOIFNAME), is(name16(name)...)} }

// The interfaces whose names begin so.
func fromAny(prefix string) rule  { return rule{meta(expr.MetaKeyIIFNAME), is([]byte(prefix)...)} }
func fromNone(prefix string) rule { return rule{meta(expr.MetaKeyIIFNAME), not([]byte(prefix)...)} }
func toAny(prefix string) rule    { return rule{meta(expr.MetaKeyOIFNAME), is([]byte(prefix)...)} }
func toNone(prefix string) rule   { return rule{meta(expr.MetaKeyOIFNAME), not([]byte(prefix)...)} }

// The family of a packet, in a table of both.
func ip4() rule { return rule{meta(expr.MetaKeyNFPROTO), is(unix.NFPROTO_IPV4)} }
func ip6() rule { return rule{meta(expr.MetaKeyNFPROTO), is(unix.NFPROTO_IPV6)} }

func protocol(number byte) rule { return rule{meta(expr.MetaKeyL4PROTO), is(number)} }

func load(base expr.PayloadBase, offset, length, register uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: base, Offset: offset, Len: length}
}

func network(offset, length, register uint32) expr.Any {
	return load(expr.PayloadBaseNetworkHeader, offset, length, register)
}

func transport(offset, length, register uint32) expr.Any {
	return load(expr.PayloadBaseTransportHeader, offset, length, register)
}

// Where the addresses are in the header of either family.
func source4(register uint32) expr.Any      { return network(12, 4, register) }
func source6(register uint32) expr.Any      { return network(8, 16, register) }
func destination4(register uint32) expr.Any { return network(16, 4, register) }
func destination6(register uint32) expr.Any { return network(24, 16, register) }

// sourceIn is a packet, of the prefix's family, from one of its addresses.
func sourceIn(p netip.Prefix) rule {
	if p.Addr().Is4() {
		return within(p, ip4(), source4(reg1))
	}
	return within(p, ip6(), source6(reg1))
}

// destinationIn is the same of where it goes to.
func destinationIn(p netip.Prefix) rule {
	if p.Addr().Is4() {
		return within(p, ip4(), destination4(reg1))
	}
	return within(p, ip6(), destination6(reg1))
}

func within(p netip.Prefix, family rule, address expr.Any) rule {
	p = p.Masked()
	mask := make([]byte, p.Addr().BitLen()/8)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return when(family, rule{address, masked(mask), is(p.Addr().AsSlice()...)})
}

func masked(mask []byte) expr.Any {
	return &expr.Bitwise{
		SourceRegister: reg1, DestRegister: reg1, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask)),
	}
}

func icmp(kind byte) rule {
	return when(ip4(), protocol(unix.IPPROTO_ICMP), rule{transport(0, 1, reg1), is(kind)})
}

// icmp6 is right in a table of the bridge too, where the protocol says that it is IPv6.
func icmp6(kind byte) rule {
	return when(protocol(unix.IPPROTO_ICMPV6), rule{transport(0, 1, reg1), is(kind)})
}

func fromPort(protocolNumber byte, port uint16) rule {
	return when(protocol(protocolNumber), rule{transport(0, 2, reg1), is(byte(port>>8), byte(port))})
}

func toPort(protocolNumber byte, port uint16) rule {
	return when(protocol(protocolNumber), rule{transport(2, 2, reg1), is(byte(port>>8), byte(port))})
}

func toPorts(protocolNumber byte, ports Ports) rule {
	end := func(op expr.CmpOp, port uint16) expr.Any {
		return &expr.Cmp{Op: op, Register: reg1, Data: []byte{byte(port >> 8), byte(port)}}
	}
	return when(protocol(protocolNumber), rule{transport(2, 2, reg1), end(expr.CmpOpGte, ports.First), end(expr.CmpOpLte, ports.Last)})
}

// in matches when the set has the key loaded into register and those after it.
func in(set string, register uint32) expr.Any {
	return &expr.Lookup{SourceRegister: register, SetName: set}
}

// state is that the connection is in one of the states.
func state(bits uint32) rule {
	return rule{
		&expr.Ct{Key: expr.CtKeySTATE, Register: reg1},
		masked(binaryutil.NativeEndian.PutUint32(bits)),
		not(0, 0, 0, 0),
	}
}

func established() rule { return state(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED) }
func invalid() rule     { return state(expr.CtStateBitINVALID) }

// unrouted is that the way back to the source doesn't lead out of the
// interface that the packet came in by.
func unrouted() rule {
	return rule{
		&expr.Fib{Register: reg1, FlagSADDR: true, FlagIIF: true, ResultOIF: true},
		is(0, 0, 0, 0),
	}
}

// clamp makes the segments that a SYN asks for fit the route that it takes.
func clamp() rule {
	const synRst, syn, maxSegment = 0x06, 0x02, 2
	return rule{
		meta(expr.MetaKeyL4PROTO), is(unix.IPPROTO_TCP),
		transport(13, 1, reg1), masked([]byte{synRst}), is(syn),
		&expr.Rt{Register: reg1, Key: expr.RtTCPMSS},
		&expr.Byteorder{SourceRegister: reg1, DestRegister: reg1, Op: expr.ByteorderHton, Len: 2, Size: 2},
		&expr.Exthdr{SourceRegister: reg1, Type: maxSegment, Offset: 2, Len: 2, Op: expr.ExthdrOpTcpopt},
	}
}

// filter is a base chain that lets pass or not.
func filter(hook *nftables.ChainHook, priority nftables.ChainPriority, policy nftables.ChainPolicy) *base {
	return &base{kind: nftables.ChainTypeFilter, hook: hook, priority: &priority, policy: policy}
}

// sourceNAT is the base chain that changes sources on the way out.
func sourceNAT() *base {
	return &base{
		kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPostrouting,
		priority: nftables.ChainPriorityNATSource, policy: nftables.ChainPolicyAccept,
	}
}
