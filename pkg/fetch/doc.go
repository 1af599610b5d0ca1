// Package fetch makes the HTTP clients by which the node downloads from servers that others run: registries, and the
// stores of flists.
//
// Such servers are asked through pkg/dial only, over TLS unless the operator lists them, and only while they send
// something. Nothing that comes from them is trusted: whoever reads a body bounds it, and checks its digest. Errors have
// kinds, and repeat nothing that a server wrote but its status, and MostText bytes of why an answer
// can't be read.
package fetch
