"""SQL that makes PostgreSQL fail when it stores a message whose subject ends in `.bad`."""

FAULT = """
    create function public.fault() returns trigger language plpgsql as $$
    begin
      if new.subject like '%.bad' then
        raise exception 'a fault made for a test' using errcode = '{code}';
      end if;
      return new;
    end $$;
    create trigger fault before insert on jetgate_store.message_1
      for each row execute function public.fault();
    create trigger fault before insert on jetgate_store.message_0
      for each row execute function public.fault();
"""
"""SQL that creates the fault; `format(code=...)` inserts the SQLSTATE to raise."""

NO_FAULT = "drop function public.fault cascade"
"""SQL that removes the fault."""
