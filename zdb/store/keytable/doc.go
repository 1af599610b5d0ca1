// Package keytable is the hash table of live keys in user mode: 16 bytes a key,
// in memory only. It doesn't hold the keys themselves: a candidate's record is
// read and compared.
package keytable
