// Package dial connects to addresses named by tenants: image registries,
// flist stores, debug hosts, hubs; and judges addresses for other senders, such
// as the endpoints of tunnels. It decides where such a connection may lead, and
// owns nothing else; it keeps no state.
//
// An address is read strictly, a name is resolved once, every answer is judged,
// and the connection goes to a judged IP, so that nothing can change between
// the check and the connect. One refused answer refuses the whole name: a name
// that leads to the node and elsewhere is either an attack or a mistake, and
// which answer is used would be chance.
//
// Refused are addresses that aren't public (see ranges.go), this machine's own,
// and the ranges in [Config], unless the operator lists an [Exception].
//
// Errors start with "cannot" and have a kind: node.Invalid for a malformed
// address, node.Refused for a refused one, node.Transient for failures
// to resolve and to connect, node.Internal when this machine's own ranges can't
// be read: then nothing is dialled.
package dial
