// Package atomicfile writes files whole: what is under a name is always the
// old content or the new one, also after a power cut, never a mixture.
//
// The order is: write a temporary file, fsync it, rename it over the name,
// fsync the folder. Only the last makes the rename last; a batch shares it.
// Every step passes a Hook, so that tests can stop or fail at each of them.
package atomicfile
