// Package dial connects to addresses that tenants name: image registries,
// flist stores, debug hosts, hubs; and judges those that others send to, such as
// the endpoints of tunnels. It owns the decision where such a connection
// may lead, and nothing else; it keeps no state.
//
// An address is read strictly, a name is resolved once, every answer is judged,
// and the connection goes to a judged IP, so that nothing can change between
// the check and the connect. One refused answer refuses the whole name: a name
// that leads to the node and elsewhere is either an attack or a mistake, and
// which answer would be used is a matter of luck.
//
// Refused are what isn't public (see ranges.go), this machine's own addresses,
// and what [Config] lists, unless the operator lists an [Exception].
//
// Errors start with "cannot" and have a kind: node.Invalid for what isn't an
// address, node.Refused for where it may not lead, node.Transient for failures
// to resolve and to connect, node.Internal when this machine's own ranges can't
// be read: then nothing is dialled.
package dial
