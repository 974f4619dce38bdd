-- A dead letter that cannot go yet is kept as what it is: why it died, and who has it already.
ALTER TABLE attempts ADD COLUMN death BLOB NOT NULL DEFAULT x'';
