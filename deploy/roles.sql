-- The database of jetgate and its role, for an administrator:
--   psql -h db.example -U postgres -v password='...' -f deploy/roles.sql
-- The role owns its database and nothing else: no superuser, no replication, no other role.
create role jetgate_app login nosuperuser nocreatedb nocreaterole noreplication
  password :'password' connection limit 40;
create database jetgate_app owner jetgate_app encoding 'UTF8' template template0;
revoke all on database jetgate_app from public;
grant connect on database jetgate_app to jetgate_app;
